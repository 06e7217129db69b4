"""What file names tell of the workers' interpreter and its packages."""

from __future__ import annotations

import pytest

from flota.cluster.node_facts import find_python, framework_versions, package_directories, python_version, script_hash
from flota.job.spec import Command


@pytest.mark.parametrize(
    ("name", "version"), [("python3.11", "3.11"), ("python", ""), ("python3", ""), ("pypy3.10", "")]
)
def test_the_version_is_that_of_the_file_to_which_links_lead(tmp_path, name, version):
    (tmp_path / name).touch()
    (tmp_path / "link").symlink_to(name)

    assert python_version(str(tmp_path / "link")) == version


def test_a_program_has_no_interpreter():
    assert find_python(Command("program", "./a.out", (), "/usr/bin/python3")) == ""


def test_versions_of_frameworks_are_read_from_names_of_directories(tmp_path):
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name in ("torch-2.5.1+cpu.dist-info", "paddlepaddle_gpu-3.0.0.dist-info", "torchvision-0.1.dist-info", "jax"):
        (packages / name).mkdir(parents=True)

    found = framework_versions(package_directories(str(tmp_path / "bin" / "python"), "3.11"))

    assert found == {"torch": "2.5.1+cpu", "paddle": "3.0.0"}


def test_a_directory_that_does_not_exist_has_no_frameworks(tmp_path):
    assert framework_versions([str(tmp_path / "none")]) == {}


def test_a_script_that_cannot_be_read_has_no_hash(tmp_path):
    (tmp_path / "train.py").write_text("pass\n")

    assert len(script_hash(str(tmp_path / "train.py"))) == 8
    assert script_hash(str(tmp_path / "none.py")) == ""
