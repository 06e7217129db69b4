"""The flota() fixture: the real command, in a directory of its own, leaving nobody behind."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.launching import Flota

# The same examples every time, so that a run says something about the change and not about luck; soak looks for new ones.
settings.register_profile("same", derandomize=True, database=None)
settings.register_profile("soak", derandomize=False)
settings.load_profile("soak" if os.environ.get("FLOTA_SOAK") else "same")


@pytest.fixture(scope="session", autouse=True)
def own_tmp(tmp_path_factory):
    """What frameworks leave in the folder for temporary files goes with the tests' own files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
        yield


@pytest.fixture
def flota(tmp_path):
    launcher = Flota(tmp_path)
    yield launcher
    launcher.end()
