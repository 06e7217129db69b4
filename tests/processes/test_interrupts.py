"""Ctrl-C during the start: no traceback from flota, no process left, exit code 130."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import flota.cli
from tests.launching import assert_nobody_left

SOAK = bool(os.environ.get("FLOTA_SOAK"))
PACKAGE = os.path.dirname(flota.__file__)
# Run by Python before the command can set its handler.
BEFORE_COMMAND = (flota.__file__, flota.cli.__file__)
PARTS = range(4)
LOST_AFTER = 10.0  # seconds: a signal without effect by then was lost
# Counts calls of functions in this process, and sends SIGINT at one of them. `started`: how many there were until fork.
AT_A_CALL = """\
import os, sys
from flota.cli import command
at, calls, node = int(sys.argv.pop(1)), 0, os.getpid()
def count(*_):
    global calls
    calls += 1
    if calls == at and os.getpid() == node:
        os.kill(node, 2)
def fork(real=os.fork):
    with open("started", "w") as file:
        file.write(str(calls))
    return real()
os.fork = fork
sys.setprofile(count)
command()
"""


def at_call(number):
    return [sys.executable, "-c", AT_A_CALL, str(number)]


def tracebacks(err):
    """The files of the package that tracebacks name."""
    return {line.split('"')[1] for line in err.splitlines() if line.strip().startswith(f'File "{PACKAGE}')}


def test_an_interrupt_at_any_call_of_the_start_is_quiet(flota):
    running = flota.start("sleeps.py", command=at_call(-1))
    running.wait_for("started", "ready.0.0")
    os.kill(running.pid, signal.SIGINT)
    assert running.wait() == 130
    calls = int((flota.directory / "started").read_text() or 0)

    chance = random.Random(calls)
    # The first call is that of `command` itself; some come after the fork.
    for number in (2, 3, 4, 5, *sorted(chance.sample(range(6, calls + 500), 200 if SOAK else 20))):
        ended = flota.run("sleeps.py", command=at_call(number))

        assert (ended.returncode, tracebacks(ended.stderr)) == (130, set()), f"call {number}: {ended.stderr}"
        assert "KeyboardInterrupt" not in ended.stderr
        assert_nobody_left()


@pytest.mark.parametrize("part", PARTS)
def test_an_interrupt_at_any_time_of_the_start_is_quiet(flota, part):
    """Python's own start may still print a traceback or lose the signal, or fail: flota's code has not begun then."""
    chance = random.Random(part)
    for _ in range(100 if SOAK else 10):
        running = flota.start("--nproc_per_node", 2, "--grace", "0.2", "sleeps.py", start_new_session=True)
        moment = chance.uniform(0, 0.2)
        time.sleep(moment)  # the very moment is what is tried, not waited for
        os.kill(running.pid, signal.SIGINT)
        try:
            _, err = running.output(LOST_AFTER)
        except subprocess.TimeoutExpired:
            os.kill(running.pid, signal.SIGINT)
            _, err = running.output()

        assert tracebacks(err) <= {*BEFORE_COMMAND}, f"after {moment:.3f} s: {err}"
        is_pythons = "KeyboardInterrupt" in err or "Fatal Python error: init_" in err
        assert running.process.returncode in (130, -signal.SIGINT) or is_pythons, err
        assert_nobody_left()


@pytest.mark.parametrize("module", ["flota", "flota.torch_launch"])
def test_an_interrupt_that_was_ignored_stays_ignored(flota, module):
    ignoring = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-m", module]
    running = flota.start("sleeps.py", command=ignoring)
    running.wait_for("ready.0.0")

    os.kill(running.pid, signal.SIGINT)
    os.kill(running.pid, signal.SIGTERM)

    assert running.wait() == 143


def test_an_interrupt_that_flota_does_not_handle_leaves_no_process(flota):
    running = flota.start("--signals-to-handle", "SIGTERM", "forks_daemon.py")
    running.wait_for("ready.0.0")

    os.kill(running.pid, signal.SIGINT)

    assert running.wait() == 130
    assert_nobody_left()
