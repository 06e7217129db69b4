"""No orphan after anything: a grid of what workers do and of how things end, survivors counted by their state in /proc."""

from __future__ import annotations

import os
import pty
import random
import signal
import subprocess
import time

import pytest

from tests.launching import COMMAND, WORKERS, assert_nobody_left, children, environment, state, wait_until

SOAK = bool(os.environ.get("FLOTA_SOAK"))
BEHAVIOURS = [
    "sleeps.py",
    "ignores_sigterm.py",
    "forks_child.py",
    "forks_session.py",
    "forks_daemon.py",
    "forks_forever.py",
    "does_all.py",
    "threads_and_pool.py",
]
STOPS = ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"]
LOST_AFTER = 10.0  # seconds: a signal without effect by then was lost
REPEATS = range(10 if SOAK else 1)


def start(flota, behaviour, *flags):
    running = flota.start("--nproc_per_node", 2, "--grace", "0.2", *flags, behaviour)
    running.wait_for("ready.0.0", "ready.1.0")
    return running


@pytest.mark.parametrize("_repeat", REPEATS)
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_no_process_survives_the_death_of_the_node(flota, behaviour, _repeat):
    running = start(flota, behaviour)

    os.kill(running.pid, signal.SIGKILL)
    running.wait()

    assert_nobody_left()


@pytest.mark.parametrize("_repeat", REPEATS)
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_no_process_survives_the_death_of_the_shepherd(flota, behaviour, _repeat):
    running = start(flota, behaviour)

    os.kill(running.shepherd(), signal.SIGKILL)

    assert running.wait() == 128 + signal.SIGKILL
    assert_nobody_left()


@pytest.mark.parametrize("name", STOPS)
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_no_process_survives_a_stop(flota, behaviour, name):
    running = start(flota, behaviour)

    os.kill(running.pid, getattr(signal, name))

    assert running.wait() == 128 + getattr(signal, name)
    assert_nobody_left()


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_no_process_survives_the_death_of_a_worker(flota, behaviour):
    running = start(flota, behaviour)
    worker = children(running.shepherd())[0]

    os.kill(worker, signal.SIGKILL)

    assert running.wait() == 128 + signal.SIGKILL
    assert_nobody_left()


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_no_process_of_the_last_round_is_left_in_the_next(flota, behaviour):
    running = start(flota, behaviour, "--max_restart", 1)
    worker = children(running.shepherd())[0]
    os.kill(worker, signal.SIGKILL)
    running.wait_for("ready.0.1", "ready.1.1")

    os.kill(running.pid, signal.SIGKILL)
    running.wait()

    assert_nobody_left()


def test_children_of_workers_that_succeed_are_killed(flota):
    code = "import os, time\nif os.fork() == 0:\n os.setsid()\n time.sleep(600)"
    (flota.directory / "leaves_child.py").write_text(code)

    result = flota.run("--nproc_per_node", 2, "leaves_child.py")

    assert result.returncode == 0
    assert_nobody_left()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize("to_group", [False, True])
def test_no_process_survives_a_signal_during_the_start(flota, number, to_group):
    chance = random.Random(int(number) * 2 + to_group)
    for _ in range(40 if SOAK else 6):
        running = flota.start("--nproc_per_node", 4, "--grace", "0.2", "forks_daemon.py", start_new_session=True)
        time.sleep(chance.uniform(0, 0.12))  # the very moment is what is tried, not waited for
        (os.killpg if to_group else os.kill)(running.pid, number)
        try:
            running.wait(LOST_AFTER)
        except subprocess.TimeoutExpired:
            # Python itself may lose a SIGINT while it starts: KeyboardInterrupt is ignored in callbacks of imports.
            assert number == signal.SIGINT
            os.kill(running.pid, number)
            running.wait()

        assert_nobody_left()


def test_no_process_survives_a_closed_terminal(flota):
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(flota.directory)
        os.execve(
            COMMAND,
            [str(COMMAND), "--nproc_per_node", "2", "--grace", "0.2", str(WORKERS / "forks_daemon.py")],
            environment(),
        )
    for rank in range(2):
        wait_until((flota.directory / f"ready.{rank}.0").exists, f"worker {rank}")

    os.close(terminal)

    wait_until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, "flota to end when its terminal is closed")
    assert_nobody_left()


def test_the_group_of_a_worker_that_exits_is_killed_while_the_job_continues(flota):
    code = """
import os, pathlib, time
if os.environ["RANK"] == "0" and os.fork() == 0:
    pathlib.Path("child").write_text(str(os.getpid()))
    time.sleep(600)
while not os.path.exists("child"):
    time.sleep(0.01)
if os.environ["RANK"] == "1":
    time.sleep(600)
"""
    (flota.directory / "leaves.py").write_text(code)
    running = flota.start("--nproc_per_node", 2, "leaves.py")
    running.wait_for("child")
    wait_until(lambda: (flota.directory / "child").read_text(), "the child's number")

    wait_until(lambda: state(int((flota.directory / "child").read_text())) in "ZX", "the child to be ended")

    assert running.process.poll() is None
