"""The command line of the lab."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab import missing
from tests.launching import environment

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

ROOT = Path(__file__).parents[2]


def by_hand(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.lab", *words]
    env = environment({"LAB": f"test{os.getpid()}"})
    return subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture
def lab():
    yield by_hand("up", "2")
    by_hand("down")


def test_a_lab_is_created_used_and_removed(lab):
    assert (lab.returncode, lab.stdout.split("\n")[1]) == (0, "host2 10.77.0.2 fd77::2"), lab.stderr
    assert by_hand("run", "2", "hostname").stdout == "host2\n"
    assert by_hand("run", "2", "sh", "-c", "exit 7").returncode == 7
    assert by_hand("cut", "2", "carrier=1").returncode == 0
    assert by_hand("run", "2", "cat", "/sys/class/net/eth0/carrier").stdout == "0\n"
    assert by_hand("heal").returncode == 0
    assert by_hand("run", "2", "cat", "/sys/class/net/eth0/carrier").stdout == "1\n"
    assert by_hand("down").returncode == 0
    assert "no lab is running" in by_hand("run", "1", "true").stderr


def test_two_labs_cannot_have_the_same_name(lab):
    assert "a lab is already running" in by_hand("up", "2").stderr


def test_a_mistake_is_reported_and_the_lab_keeps_running(lab):
    assert by_hand("cut", "9").returncode == 1
    assert by_hand("shape", "1", "color=3").returncode == 1
    assert by_hand("dance").returncode == 1
    assert by_hand("shape", "1", "delay_ms=1").returncode == 0
    assert by_hand("partition", "1", "2").returncode == 0
    assert by_hand("run", "1", "true").returncode == 0
