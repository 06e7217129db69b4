"""What is imported before the workers run. Each of these modules costs a start some milliseconds."""

from __future__ import annotations

import marshal
import subprocess
import sys
from pathlib import Path

from tests.launching import WORKERS, environment

SLOW = {
    "argparse", "asyncio", "collections", "ctypes", "dataclasses", "enum", "functools", "importlib.metadata", "inspect", "json", "logging",
    "pathlib", "re", "selectors", "shutil", "signal", "socket", "ssl", "struct", "subprocess", "tempfile", "threading",
    "tomllib", "traceback", "types", "typing",
}  # fmt: skip
RARE = (
    *("nodes", "address", "ipu", "cli.platform", "platforms.", "cli.roles", "cli.commands", "cli.help", "servers"),
    *("errors.", "bind", "affinity"),
)
MOST_CODE = 314_000  # bytes on Python 3.11; less on later versions
PROBE = """
import os, sys
real = os.fork
def fork():
    with open("loaded", "w") as file:
        file.write("\\n".join(f"{name}={getattr(module, '__file__', None)}" for name, module in sys.modules.items()))
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

    loaded = dict(line.split("=") for line in (tmp_path / "loaded").read_text().splitlines())
    own = {name: file for name, file in loaded.items() if name.startswith("flota")}
    assert not loaded.keys() & SLOW
    assert not {name for name in own if any(word in name for word in RARE)}
    # Every module costs a tenth of a millisecond, and so does every 10 KB of code. If one of these fails, import
    # something later instead; raise the number only if the new code is needed before every start.
    assert len(own) <= 37
    assert sum(map(code_size, own.values())) <= MOST_CODE


def test_a_node_that_joins_others_loads_tls_only_if_it_is_used():
    code = "import sys, flota.cluster.multi_node; print(*sys.modules)"

    printed = subprocess.run(
        [sys.executable, "-c", code], env=environment(), check=True, capture_output=True, text=True
    )

    assert not {"ssl", "hashlib", "asyncio", "subprocess", "logging", "tempfile"} & set(printed.stdout.split())


def code_size(path):
    """The size of its bytecode, in bytes, without docstrings: these should not be shorter because of this test."""
    return len(marshal.dumps(compile(Path(path).read_bytes(), "", "exec", optimize=2)))


def source():
    import flota

    return flota.__path__[0].rpartition("/")[0]
