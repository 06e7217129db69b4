"""The fixture flota(): runs the real command in a temporary directory, and kills what it leaves behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.launching import Flota

SOURCE = Path(__file__).parents[1] / "src"

# The same examples in every run, so that results depend on the code only; soak looks for new ones. How long an example
# takes depends on what else the machine does.
any_speed: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, database=None, **any_speed)
settings.register_profile("soak", derandomize=False, **any_speed)
settings.load_profile("soak" if os.environ.get("FLOTA_SOAK") else "same")


@pytest.fixture(scope="session", autouse=True)
def own_tmp(tmp_path_factory):
    """Temporary files of frameworks are removed together with those of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
        yield


@pytest.fixture
def flota(tmp_path):
    launcher = Flota(tmp_path)
    yield launcher
    launcher.end()


@pytest.fixture
def installed(tmp_path_factory):
    """How flota is started by an interpreter without packages, with this py-spy beside it or without one."""

    def install(spy=""):
        python = tmp_path_factory.mktemp("bin") / "python"
        python.symlink_to(os.path.realpath(sys.executable))
        if spy:
            (python.parent / "py-spy").write_text(f"#!/bin/sh\n{spy}\n")
            (python.parent / "py-spy").chmod(0o755)
        return {"command": [python, "-S", "-m", "flota"], "env": {"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"}}

    return install
