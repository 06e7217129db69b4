"""--version: the versions that a bug report needs, and which optional parts of flota can be used."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

from flota import __version__
from flota.hangs.capture import find_spy

NODE_PACKAGES = ("h11", "msgspec")
SPY_LIMIT = 5.0  # seconds


def print_version() -> int:
    python = ".".join(str(number) for number in sys.version_info[:3])
    missing = [package for package in NODE_PACKAGES if find_spec(package) is None]
    machines = f"{' and '.join(missing)} not installed" if missing else "yes"
    print(f"flota {__version__} (Python {python}; several machines: {machines}; stacks: {_spy_version()})")
    return 0


def _spy_version() -> str:
    """The version of the py-spy that flota would run, which is not always the one that pip installed here."""
    spy = find_spy(os.environ)
    if not spy:
        return "py-spy not installed"
    try:
        ran = subprocess.run([spy, "--version"], capture_output=True, text=True, timeout=SPY_LIMIT, check=True)
    except (OSError, subprocess.SubprocessError):
        return f"{spy} does not run"
    return ran.stdout.strip()
