"""Builds the sdist and the wheel into dist/, checks both, and runs the demo from the wheel: `python -m tests.dist`.

The wheel is built from the sdist, in a copy of the source: stale files of earlier builds cannot get into it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import NoReturn

from packaging.metadata import InvalidMetadata, Metadata

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
# What the build reads. A file that pyproject.toml needs and that is not here fails the build.
SOURCES = ("pyproject.toml", "README.md", "LICENSE")
COMMANDS = ("fleetrun", "flota")
DEMO = ROOT / "examples" / "plain_python" / "train.py"
UNWANTED = re.compile(r"(^|/)(tests?|bench|__pycache__|\.[^/]+)/|\.(pyc|so|log)$")


class DistFailed(Exception):
    pass


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="flota-dist-") as directory:
        try:
            version = check_changelog((ROOT / "CHANGELOG.md").read_text(), source_version())
            sdist, wheel = build(Path(directory) / "source")
            check_sdist(sdist, version, source_files())
            check_wheel(wheel, version, source_files())
            run_installed(wheel, version, Path(directory))
        except (DistFailed, InvalidMetadata, ExceptionGroup) as error:
            print(f"dist: {error}", file=sys.stderr)
            for detail in getattr(error, "exceptions", ()):
                print(f"  {detail}", file=sys.stderr)
            return 1
    print(f"dist: {sdist.name} and {wheel.name} are in {DIST.name}/; the demo runs from the wheel")
    return 0


def source_version() -> str:
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "src" / "flota" / "__init__.py").read_text(), re.MULTILINE)
    return found.group(1) if found else fail("src/flota/__init__.py has no __version__")


def source_files() -> dict[str, bytes]:
    """Every file of the package, by its path in a wheel."""
    source = ROOT / "src"
    paths = (path for path in (source / "flota").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(source)): path.read_bytes() for path in paths}


def check_changelog(text: str, version: str) -> str:
    """The version. Its section is the newest one that has changes in it."""
    sections = re.findall(r"^## (\S+)[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    newest = next((name for name, body in sections if body.strip()), "")
    return version if newest == version else fail(f"CHANGELOG.md begins with `## {newest}`, the version is {version}")


def build(source: Path) -> tuple[Path, Path]:
    shutil.copytree(ROOT / "src" / "flota", source / "src" / "flota", ignore=shutil.ignore_patterns("__pycache__"))
    for name in SOURCES:
        shutil.copy(ROOT / name, source)
    shutil.rmtree(DIST, ignore_errors=True)
    run([sys.executable, "-m", "build", "--outdir", DIST, source], source)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    return sdist, wheel


def check_sdist(sdist: Path, version: str, source: dict[str, bytes]) -> None:
    top = f"flota-{version}/"
    with tarfile.open(sdist) as archive:
        names = [member.name for member in archive if member.isfile()]
    refuse(sdist, "files outside of its directory", [name for name in names if not name.startswith(top)])
    inside = {name.removeprefix(top) for name in names}
    refuse(sdist, "unwanted files", [name for name in inside if UNWANTED.search(name)])
    refuse(sdist, "missing files", {"PKG-INFO", *SOURCES, *(f"src/{name}" for name in source)} - inside)


def check_wheel(wheel: Path, version: str, source: dict[str, bytes]) -> None:
    """It has the package's files, byte by byte, its metadata, and nothing else."""
    info = f"flota-{version}.dist-info/"
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    package = {name: data for name, data in files.items() if not name.startswith(info)}
    refuse(wheel, "missing files", {*source, f"{info}licenses/LICENSE", f"{info}METADATA"} - {*files})
    refuse(wheel, "unwanted files", [name for name in package if name not in source or UNWANTED.search(name)])
    refuse(wheel, "files that differ from src", [name for name in package if package[name] != source[name]])
    check_metadata(files[f"{info}METADATA"], version)
    commands = re.findall(rb"^(\w+) = flota\.cli:command$", files[f"{info}entry_points.txt"], re.MULTILINE)
    refuse(wheel, "missing commands", {*COMMANDS} - {command.decode() for command in commands})


def check_metadata(text: bytes, version: str) -> None:
    """As a package index checks it; and what an index does not ask for, but readers do."""
    metadata = Metadata.from_email(text, validate=True)
    wanted = {
        "name": metadata.name == "flota",
        "version": str(metadata.version) == version,
        "summary": metadata.summary,
        "description": metadata.description and metadata.description_content_type == "text/markdown",
        "license": metadata.license_expression == "Apache-2.0",
        "license file": "LICENSE" in (metadata.license_files or []),
        "required Python": metadata.requires_python,
        "extra `stacks`": "stacks" in (metadata.provides_extra or []),
        "classifiers": metadata.classifiers,
        "keywords": metadata.keywords,
    }
    wrong = [name for name, right in wanted.items() if not right]
    if wrong:
        fail(f"METADATA is missing or wrong: {', '.join(wrong)}")


def run_installed(wheel: Path, version: str, directory: Path) -> None:
    """Install the wheel into an empty environment; run the demo, away from the clone."""
    environment, job = directory / "environment", directory / "job"
    job.mkdir()
    shutil.copy(DEMO, job)
    run([sys.executable, "-m", "venv", environment], job)
    programs = environment / "bin"
    run([programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], job)
    for command in COMMANDS:
        printed = run([programs / command, "--version"], job)
        if not re.match(rf"flota {re.escape(version)} \(Python .*; several machines: yes; ", printed):
            fail(f"`{command} --version` printed {printed!r}")
    run([programs / "flota", "--nproc_per_node", "2", DEMO.name], job)
    for rank in range(2):
        trained = f"rank {rank} of 2: y = 3.00 x + -2.00"
        if trained not in (job / "log" / f"workerlog.{rank}").read_text():
            fail(f"the demo did not print `{trained}`")


def run(command: list[str | Path], directory: Path) -> str:
    # A shell's PYTHON* could point the environment at this clone.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        words = " ".join(str(word) for word in command)
        fail(f"`{words}` failed with exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def refuse(archive: Path, what: str, names: Collection[str]) -> None:
    if names:
        fail(f"{archive.name}: {what}: {', '.join(sorted(names))}")


def fail(message: str) -> NoReturn:
    raise DistFailed(message)


if __name__ == "__main__":
    sys.exit(main())
