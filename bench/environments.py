"""The virtual environments under measurement: flota's, which is created here, and those that `make peers` creates."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCH, TORCH, PADDLE = (ROOT / ".peers" / name for name in ("bench", "torch", "paddle"))
PYTHON = BENCH / "bin" / "python"
PACKAGE = ("pyproject.toml", "README.md", "LICENSE", "src")
# Variables of the shell or of an outer job would change what launchers and their workers do.
FOREIGN = ("PYTHON", "VIRTUAL_ENV", "CONDA", "FLOTA_", "PET_", "PADDLE_", "TORCHELASTIC_", "MASTER_", "OMP_")


class MissingPeer(Exception):
    """An environment of another launcher is missing."""


def environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}


def prepare() -> None:
    """flota as users install it: from the current sources, compiled, not editable."""
    if not (TORCH / "bin" / "torchrun").exists():
        raise MissingPeer("torchrun is missing: run `make peers`")
    mark = BENCH / "sources.sha256"
    digest = _digest_of_sources()
    if mark.exists() and mark.read_text() == digest:
        return
    if not mark.exists():
        _quietly(sys.executable, "-m", "venv", str(BENCH))
        # Old versions of pip write a console script that imports re, which would count as flota's time.
        _quietly(str(PYTHON), "-m", "pip", "install", "--upgrade", "pip")
    with tempfile.TemporaryDirectory() as copy:
        _copy_package(Path(copy))
        _quietly(str(PYTHON), "-m", "pip", "install", f"{copy}[stacks,view,etcd]")
    mark.write_text(digest)


def has_paddle() -> bool:
    return (PADDLE / "bin" / "python").exists()


def _copy_package(to: Path) -> None:
    """Build from a copy: a build in place would leave files behind, and use stale ones."""
    for name in PACKAGE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
        elif source.exists():
            shutil.copy(source, to / name)


def _digest_of_sources() -> str:
    digest = hashlib.sha256()
    for path in [ROOT / "pyproject.toml", *sorted((ROOT / "src").rglob("*.py"))]:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _quietly(*command: str) -> None:
    done = subprocess.run(command, env=environ(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"bench: `{' '.join(command)}` failed:\n{done.stdout}")
