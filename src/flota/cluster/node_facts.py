"""Finds what a node says of itself when it joins, without starting the workers' interpreter: file names tell enough."""

from __future__ import annotations

import os
import resource
import zlib

from flota import __version__
from flota.cluster.differences import LEAST_FILES, LEAST_SHM, NodeFacts
from flota.job.printable import printable
from flota.job.spec import Command, JobSpec

DISTRIBUTIONS = {
    "torch": "torch",
    "paddlepaddle": "paddle",
    "paddlepaddle_gpu": "paddle",
    "jax": "jax",
    "tensorflow": "tensorflow",
    "tensorflow_cpu": "tensorflow",
}
SHM = "/dev/shm"  # noqa: S108  only measured
LARGEST_SCRIPT = 16 << 20  # bytes


def collect_facts(spec: JobSpec) -> NodeFacts:
    python = find_python(spec.command)
    version = python_version(python)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    shm = free_bytes(SHM) if spec.workers > 1 else -1
    return NodeFacts(
        version,
        __version__,
        tuple(sorted(framework_versions(package_directories(python, version)).items())) if version else (),
        # With roles, nodes may run the scripts of different roles.
        script_hash(spec.command.target) if spec.command.kind == "script" and not spec.roles else "",
        shm if shm <= LEAST_SHM else -1,
        files if 0 <= files < LEAST_FILES else -1,
    )


def find_python(command: Command) -> str:
    """The path of the workers' interpreter; empty if they are not run by one."""
    if command.kind == "program":
        return ""
    if os.path.dirname(command.python):
        return os.path.abspath(command.python)
    paths = (os.path.join(directory, command.python) for directory in os.get_exec_path())
    return next((path for path in paths if os.access(path, os.X_OK)), "")


def python_version(python: str) -> str:
    """By the name of the file to which `python` leads, as in `python3.11`."""
    version = os.path.basename(os.path.realpath(python)).removeprefix("python") if python else ""
    return version if version.replace(".", "", 1).isdecimal() and "." in version else ""


def package_directories(python: str, version: str) -> list[str]:
    prefix = os.path.dirname(os.path.dirname(python))
    own = [f"{prefix}/lib/python{version}/site-packages"]
    debian = [f"/usr/local/lib/python{version}/dist-packages", "/usr/lib/python3/dist-packages"]
    return own + debian if prefix == "/usr" else own


def framework_versions(directories: list[str]) -> dict[str, str]:
    """By the names of directories as in `torch-2.5.1.dist-info`. The first directory counts."""
    found: dict[str, str] = {}
    for directory in directories:
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        for name in names:
            distribution, _, version = name.removesuffix(".dist-info").partition("-")
            if name.endswith(".dist-info") and distribution.lower() in DISTRIBUTIONS:
                found.setdefault(DISTRIBUTIONS[distribution.lower()], printable(version))
    return found


def script_hash(path: str) -> str:
    """Of its bytes, to find differences by mistake; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return f"{zlib.crc32(file.read(LARGEST_SCRIPT)):08x}"
    except OSError:
        return ""


def free_bytes(directory: str) -> int:
    """-1 if it does not exist."""
    try:
        free = os.statvfs(directory)
    except OSError:
        return -1
    return free.f_bavail * free.f_frsize
