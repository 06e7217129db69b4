"""flota --version: Python, and which extras are installed."""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path

import pytest

import flota as package


@pytest.fixture
def bare(tmp_path_factory):
    """How flota is started by an interpreter without packages, with this py-spy beside it or without one."""

    def install(spy=""):
        python = tmp_path_factory.mktemp("bin") / "python"
        python.symlink_to(os.path.realpath(sys.executable))
        if spy:
            (python.parent / "py-spy").write_text(f"#!/bin/sh\n{spy}\n")
            (python.parent / "py-spy").chmod(0o755)
        source = str(Path(package.__file__).parents[1])
        return {"command": [python, "-S", "-m", "flota"], "env": {"PYTHONPATH": source, "PATH": "/usr/bin:/bin"}}

    return install


def test_python_and_the_installed_extras_are_named(flota):
    printed = flota.run("--version").stdout

    versions = re.escape(f"flota {package.__version__} (Python {platform.python_version()}; ")
    assert re.fullmatch(rf"{versions}several machines: yes; stacks: py-spy \d+\.\d+\.\d+\)\n", printed)


def test_missing_extras_are_named(flota, bare):
    printed = flota.run("--version", **bare()).stdout

    assert printed.endswith("; several machines: h11 and msgspec not installed; stacks: py-spy not installed)\n")


def test_a_py_spy_that_does_not_run_is_named(flota, bare):
    printed = flota.run("--version", **bare("exit 1")).stdout

    assert re.search(r"; stacks: /.+/py-spy does not run\)\n", printed)
