"""A command whose lifeline ends is asked to stop, however the process that wanted it has died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from flota.engines.command_with_lifeline import describe_command
from tests.launching import DEADLINE, assert_nobody_left

CATCHES = """
import os, signal, sys
def save(*_):
    open("saved", "w").close()
    os._exit(5)
signal.signal(signal.SIGTERM, save)
print("going", os.environ.get("ADDED"), os.environ.get("REMOVED"), sys.stdin.read(), flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def lifeline(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "flota.engines.command_with_lifeline"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "REMOVED": "1"},
        bufsize=0,
    )
    words = [sys.executable, "-c", CATCHES]
    process.stdin.write(describe_command(words, str(tmp_path), {"ADDED": "x", "REMOVED": None}))
    assert process.stdout.readline() == b"going x None \n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()
    assert_nobody_left()


def test_the_end_of_input_is_sigterm_and_the_exit_code_is_passed_on(lifeline, tmp_path):
    lifeline.stdin.close()

    assert lifeline.wait(DEADLINE) == 5
    assert (tmp_path / "saved").exists()


def test_a_byte_is_a_signal(lifeline, tmp_path):
    lifeline.stdin.write(bytes([signal.SIGKILL]))

    assert lifeline.wait(DEADLINE) == 128 + signal.SIGKILL
    assert not (tmp_path / "saved").exists()


def test_a_command_whose_lifeline_is_killed_gets_sigterm(lifeline, tmp_path):
    lifeline.kill()

    assert lifeline.stdout.read() == b""  # until the command has exited as well
    assert (tmp_path / "saved").exists()
