"""What is imported before the workers run. Each of these modules costs a start some milliseconds."""

from __future__ import annotations

import subprocess
import sys

from tests.launching import WORKERS, environment

SLOW = {
    "argparse", "asyncio", "collections", "ctypes", "dataclasses", "enum", "functools", "importlib.metadata", "inspect", "json", "logging",
    "pathlib", "re", "selectors", "shutil", "signal", "socket", "ssl", "struct", "subprocess", "tempfile", "threading",
    "tomllib", "traceback", "types", "typing",
}  # fmt: skip
PROBE = """
import os, sys
real = os.fork
def fork():
    with open("loaded", "w") as file:
        file.write("\\n".join(sys.modules))
    return real()
os.fork = fork
from flota.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_nothing_slow_is_imported_before_workers_start(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    code = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(source())!r})\n{PROBE}"]

    subprocess.run(
        [*code, str(WORKERS / "dumps_env.py")], cwd=tmp_path, env=environment(), check=True, capture_output=True
    )

    loaded = set((tmp_path / "loaded").read_text().split())
    assert not loaded & SLOW
    rare = ("nodes", "address", "ipu", "cli.platform", "platforms.", "cli.roles", "cli.commands", "cli.help", "servers")
    assert not {name for name in loaded if name.startswith("flota") and any(word in name for word in rare)}
    assert len([name for name in loaded if name.startswith("flota")]) <= 37


def source():
    import flota

    return flota.__path__[0].rpartition("/")[0]
