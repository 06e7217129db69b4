"""The frameworks' environments are made whatever builds pip can find."""

from __future__ import annotations

import pytest

from tests.peers import environments
from tests.peers.environments import SetUpFailed, make

NOT_FOUND = "ERROR: No matching distribution found for torch==2.13.0+cpu"
FULL = "ERROR: Could not install packages due to an OSError: No space left on device"


@pytest.fixture
def pip(monkeypatch):
    """What pip was asked to install; as it answers to builds for CPUs."""

    def answer(failure):
        installed = []

        def run(command):
            if any(word.endswith("+cpu") for word in command):
                raise SetUpFailed(failure)
            installed.append([word for word in command if "==" in word])

        monkeypatch.setattr(environments, "run", run)
        return installed

    return answer


def test_where_pip_finds_no_cpu_build_of_torch_the_plain_one_is_taken(pip, tmp_path):
    installed = pip(NOT_FOUND)

    make("torch", tmp_path / "torch")

    assert installed[-1][0] == "torch==2.13.0"


def test_any_other_failure_of_pip_is_reported(pip, tmp_path):
    pip(FULL)

    with pytest.raises(SetUpFailed, match="No space left"):
        make("torch", tmp_path / "torch")
