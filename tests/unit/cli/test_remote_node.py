"""What a host finds wrong before the job starts."""

from __future__ import annotations

from hashlib import sha256

import pytest

from flota.cli.remote_node import find_problems
from flota.engines.ssh_messages import HostQuestion

QUESTION = HostQuestion(".", "script", "train.py", "", first=False, several=False)


@pytest.fixture(autouse=True)
def _in_a_directory_with_a_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_bytes(b"pass\n")


def test_the_same_script_is_good():
    assert find_problems(QUESTION._replace(digest=sha256(b"pass\n").hexdigest())) == []


def test_any_script_is_good_if_there_is_none_to_compare_with():
    assert find_problems(QUESTION) == []


def test_another_script_is_not():
    assert find_problems(QUESTION._replace(digest="0")) == ["train.py differs from the one here"]


def test_a_missing_script_is_not():
    assert find_problems(QUESTION._replace(target="no.py")) == ["cannot read no.py: No such file or directory"]


def test_programs_are_looked_up_and_modules_are_not():
    assert find_problems(QUESTION._replace(kind="program", target="sh")) == []
    assert find_problems(QUESTION._replace(kind="program", target="no-such")) == ["no program no-such"]
    assert find_problems(QUESTION._replace(kind="module", target="no.such")) == []
