"""flota --version: Python, and which extras are installed."""

from __future__ import annotations

import platform
import re

import flota as package


def test_python_and_the_installed_extras_are_named(flota):
    printed = flota.run("--version").stdout

    versions = re.escape(f"flota {package.__version__} (Python {platform.python_version()}; ")
    assert re.fullmatch(rf"{versions}several machines: yes; stacks: py-spy \d+\.\d+\.\d+\)\n", printed)


def test_missing_extras_are_named(flota, installed):
    printed = flota.run("--version", **installed()).stdout

    assert printed.endswith("; several machines: h11 and msgspec not installed; stacks: py-spy not installed)\n")


def test_a_py_spy_that_does_not_run_is_named(flota, installed):
    printed = flota.run("--version", **installed("exit 1")).stdout

    assert re.search(r"; stacks: /.+/py-spy does not run\)\n", printed)
