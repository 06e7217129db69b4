"""IPU jobs for tests: a replacement for poprun, and the arguments that a job needs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.launching import WORKERS

ARGUMENTS = (
    "--hosts=localhost",
    "--nproc_per_host=2",
    "--ipus_per_replica=1",
    "--ipu_partition=pod16",
    "--vipu_server=127.0.0.1",
)


def install_poprun(directory: Path) -> dict[str, str]:
    """Write the replacement for poprun to a directory. Returns variables that put it on PATH."""
    program = directory / "sdk" / "poprun"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{(WORKERS / 'poprun.py').read_text()}")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
