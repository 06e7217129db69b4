"""`make dist` fails where an archive is incomplete, or has what it should not have."""

from __future__ import annotations

import io
import tarfile
import zipfile

import pytest

from tests.dist import ROOT, DistFailed, check_changelog, check_metadata, check_sdist, check_wheel, source_version

SOURCE = {"flota/__init__.py": b"x", "flota/py.typed": b""}
INFO = "flota-0.1.0.dist-info"
METADATA = b"""Metadata-Version: 2.4
Name: flota
Version: 0.1.0
Summary: Launches training
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.11
Provides-Extra: stacks
Classifier: Environment :: Console
Keywords: launcher
Description-Content-Type: text/markdown

# flota
"""
WHEEL = {
    **SOURCE,
    f"{INFO}/METADATA": METADATA,
    f"{INFO}/entry_points.txt": b"fleetrun = flota.cli:command\nflota = flota.cli:command\n",
    f"{INFO}/licenses/LICENSE": b"terms",
}
SDIST = ["PKG-INFO", "pyproject.toml", "README.md", "LICENSE", "src/flota/__init__.py", "src/flota/py.typed"]


@pytest.fixture
def wheel(tmp_path):
    def write(files):
        with zipfile.ZipFile(tmp_path / "x.whl", "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return tmp_path / "x.whl"

    return write


@pytest.fixture
def sdist(tmp_path):
    def write(names):
        with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
            for name in names:
                archive.addfile(tarfile.TarInfo(name), io.BytesIO())
        return tmp_path / "x.tar.gz"

    return write


def test_the_changelog_has_a_section_for_this_version():
    assert check_changelog((ROOT / "CHANGELOG.md").read_text(), source_version())


def test_changes_of_no_version_are_refused():
    text = "# Changelog\n\n## Unreleased\n\n- a change\n\n## 0.1.0\n\n- first\n"

    with pytest.raises(DistFailed, match="`## Unreleased`"):
        check_changelog(text, "0.1.0")


def test_a_complete_wheel_passes(wheel):
    check_wheel(wheel(WHEEL), "0.1.0", SOURCE)


@pytest.mark.parametrize("name", ["flota/py.typed", f"{INFO}/licenses/LICENSE", f"{INFO}/METADATA"])
def test_a_wheel_without_a_file_is_refused(wheel, name):
    files = {**WHEEL}
    del files[name]

    with pytest.raises(DistFailed, match=f"missing files: {name}"):
        check_wheel(wheel(files), "0.1.0", SOURCE)


@pytest.mark.parametrize("name", ["tests/test_x.py", "flota/__pycache__/x.cpython-311.pyc", "flota/removed.py"])
def test_a_wheel_with_anything_else_is_refused(wheel, name):
    with pytest.raises(DistFailed, match=f"unwanted files: {name}"):
        check_wheel(wheel({**WHEEL, name: b""}), "0.1.0", SOURCE)


def test_a_wheel_of_another_source_is_refused(wheel):
    with pytest.raises(DistFailed, match="files that differ from src: flota"):
        check_wheel(wheel({**WHEEL, "flota/__init__.py": b"y"}), "0.1.0", SOURCE)


def test_a_wheel_without_a_command_is_refused(wheel):
    with pytest.raises(DistFailed, match="missing commands: fleetrun"):
        check_wheel(wheel({**WHEEL, f"{INFO}/entry_points.txt": b"flota = flota.cli:command\n"}), "0.1.0", SOURCE)


@pytest.mark.parametrize("line", ["Summary", "License-File", "Requires-Python", "Provides-Extra", "Keywords"])
def test_metadata_without_a_line_is_refused(line):
    lines = [text for text in METADATA.decode().splitlines() if not text.startswith(f"{line}:")]

    with pytest.raises(DistFailed, match="METADATA is missing or wrong"):
        check_metadata("\n".join(lines).encode(), "0.1.0")


def test_metadata_that_an_index_refuses_is_refused():
    with pytest.raises(ExceptionGroup):
        check_metadata(METADATA.replace(b"Version: 0.1.0", b"Version: one"), "0.1.0")


def test_a_complete_sdist_passes(sdist):
    check_sdist(sdist([f"flota-0.1.0/{name}" for name in SDIST]), "0.1.0", SOURCE)


@pytest.mark.parametrize("name", SDIST)
def test_an_sdist_without_a_file_is_refused(sdist, name):
    names = [f"flota-0.1.0/{other}" for other in SDIST if other != name]

    with pytest.raises(DistFailed, match=f"missing files: {name}"):
        check_sdist(sdist(names), "0.1.0", SOURCE)


@pytest.mark.parametrize("name", ["tests/test_x.py", "src/flota/__pycache__/x.pyc", ".venv/bin/python"])
def test_an_sdist_with_tests_or_caches_is_refused(sdist, name):
    with pytest.raises(DistFailed, match="unwanted files"):
        check_sdist(sdist([f"flota-0.1.0/{other}" for other in [*SDIST, name]]), "0.1.0", SOURCE)
