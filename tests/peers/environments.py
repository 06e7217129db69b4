"""Creates one virtual environment per framework, with flota in it: `python tests/peers/environments.py [NAME…]`.

Environments that are up to date are not changed, so this can run before every test run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".peers"

# The slowest first: two are created at a time. `torch==2.13.0+cpu` is tried before `torch==2.13.0`, which on many
# indexes is a CUDA build of several gigabytes. PIP_EXTRA_INDEX_URL may name an index of CPU builds.
REQUIREMENTS = {
    "tensorflow": ("tensorflow-cpu==2.21.0",),
    "torch": ("torch==2.13.0+cpu", "numpy==2.4.6", "accelerate==1.15.0", "lightning==2.6.6"),
    "paddle": ("paddlepaddle==3.3.1", "setuptools==80.9.0"),
    # The last wheels that support parameter servers: 3.x does not. They need numpy 1 and protobuf 4.
    "paddle-ps": ("paddlepaddle==2.6.2", "setuptools==80.9.0", "protobuf==4.25.8", "numpy==1.26.4"),
    "jax": ("jax==0.10.2", "jaxlib==0.10.2"),
    "ray": ("ray==2.60.0",),
}

CPU_BUILD = "+cpu"

# Also kept as wheels: test_fleetrun.py installs them with flota several times.
KEPT = {"paddle": "paddlepaddle==3.3.1"}

# Editable installs all write to src/flota.egg-info.
one_at_a_time = Lock()


class SetUpFailed(Exception):
    pass


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in REQUIREMENTS]
    if unknown:
        print(f"no such environment: {', '.join(unknown)}; known are {', '.join(REQUIREMENTS)}", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(max_workers=2) as pool:
        fine = list(pool.map(set_up, [name for name in REQUIREMENTS if name in names or not names]))
    return 0 if all(fine) else 1


def set_up(name: str) -> bool:
    began = time.monotonic()
    try:
        changed = bring_up_to_date(name, PEERS / name)
    except (SetUpFailed, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
        return False
    if changed:
        print(f"{name}: ready after {time.monotonic() - began:.0f} s", flush=True)
    return True


def bring_up_to_date(name: str, directory: Path) -> bool:
    """Create or update an environment if necessary. Returns whether anything was done."""
    wanted = stamp_of(*REQUIREMENTS[name], KEPT.get(name, ""), sys.version, str(directory))
    made = directory.is_symlink() or read(directory / "stamp") != wanted
    if made:
        make(name, directory)
        (directory / "stamp").write_text(wanted)
    wanted = stamp_of((ROOT / "pyproject.toml").read_text())
    if read(directory / "flota-stamp") == wanted:
        return made
    with one_at_a_time:
        pip(directory, "install", "--editable", str(ROOT))
    (directory / "flota-stamp").write_text(wanted)
    return True


def make(name: str, directory: Path) -> None:
    if directory.is_symlink():
        directory.unlink()
    elif directory.exists():
        shutil.rmtree(directory)
    run([sys.executable, "-m", "venv", str(directory)])
    pip(directory, "install", "--upgrade", "pip")
    found_in: tuple[str, ...] = ()
    if name in KEPT:
        wheels = str(directory / "wheels")
        pip(directory, "download", "--no-deps", "--dest", wheels, KEPT[name])
        found_in = ("--find-links", wheels)
    try:
        pip(directory, "install", *found_in, *REQUIREMENTS[name])
    except SetUpFailed as error:
        plain = [requirement.removesuffix(CPU_BUILD) for requirement in REQUIREMENTS[name]]
        # pip's message for a version that no index has.
        if plain == [*REQUIREMENTS[name]] or "No matching distribution found" not in str(error):
            raise
        print(f"{name}: no {CPU_BUILD} build found, using the default build", flush=True)
        pip(directory, "install", *found_in, *plain)


def pip(directory: Path, *words: str) -> None:
    run([str(directory / "bin" / "python"), "-m", "pip", "--quiet", *words])


def run(command: list[str]) -> None:
    # PYTHON* variables of the shell could add packages from outside the environment.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise SetUpFailed(f"`{' '.join(command)}` exited with {ended.returncode}\n{ended.stdout}{ended.stderr}")


def stamp_of(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
