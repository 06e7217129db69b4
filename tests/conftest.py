"""The flota() fixture: the real command, in a directory of its own, leaving nobody behind."""

from __future__ import annotations

import pytest

from tests.launching import Flota


@pytest.fixture
def flota(tmp_path):
    launcher = Flota(tmp_path)
    yield launcher
    launcher.end()
