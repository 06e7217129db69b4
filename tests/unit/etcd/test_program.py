"""Which version an etcd says it has."""

from __future__ import annotations

import pytest

from flota.etcd.program import OLDEST, in_words, read_version

OUTPUT = "etcd Version: {}\nGit SHA: e8732fb5f\nGo Version: go1.16.3\nGo OS/Arch: linux/amd64\n"


@pytest.mark.parametrize(
    ("version", "is_used"),
    [("3.5.6", True), ("3.5.16", True), ("3.6.0-rc.0", True), ("4.0", True), ("3.5.1", False), ("3.4.23", False)],
)
def test_versions_from_3_5_6_on_are_used(version, is_used):
    assert (read_version(OUTPUT.format(version)) >= OLDEST) is is_used


@pytest.mark.parametrize("text", ["", "etcd", "etcd Version: new\n", "Version: 3.5.9\n", OUTPUT.format("3..5")])
def test_another_output_has_no_version(text):
    assert read_version(text) == ()


def test_a_version_in_words():
    assert in_words(read_version(OUTPUT.format("3.5.16"))) == "3.5.16"
