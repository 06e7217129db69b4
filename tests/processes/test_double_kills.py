"""No orphan after kills that meet the node and its shepherd at once, or a shepherd that is stopped.

`pkill` is emulated among the processes of a test: it would kill those of other tests as well.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.launching import (
    EXIT_DEADLINE,
    SHEPHERD,
    WORKERS,
    assert_nobody_left,
    children,
    descendants,
    name_of,
    state,
    wait_until,
)

KILLS = 200 if os.environ.get("FLOTA_SOAK") else 2
SCRIPT = "does_all.py"
FLAGS = ("--nproc_per_node", 2, "--grace", "0.2")
SPAWNS = """
import flota, os, runpy, sys

def work():
    os.environ["FLOTA_ATTEMPT"] = "0"
    runpy.run_path(sys.argv[1], run_name="__main__")

if __name__ == "__main__":
    flota.spawn(work, nprocs=2)
"""
KILLS_WORKERS = """
import flota, os, time

def work():
    time.sleep(60)

if __name__ == "__main__":
    workers = flota.spawn(work, nprocs=2, join=False)
    open("killing", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
    workers.kill()
"""
STOPS_ITSELF = """
import os, signal, sys
from flota.cli.main import main
from flota.host import shepherd

shepherd.forget_wakeup = lambda: os.kill(os.getpid(), signal.SIGSTOP)  # the first thing that a shepherd calls
sys.exit(main(sys.argv[1:]))
"""
STOPS_SHEPHERD = """
import os, signal

def stop_shepherd():
    with open("/proc/self/comm") as file:
        if file.read() != "shepherd\\n" or os.path.exists("stopped"):
            return
    open("stopped", "w").close()
    os.kill(os.getpid(), signal.SIGSTOP)

os.register_at_fork(after_in_child=stop_shepherd)
"""

pytestmark = pytest.mark.timeout(300 + 4 * KILLS)


# How a job is started, and what it does when it is killed.


def run_cold(flota, _chance):
    running = flota.start(*FLAGS, SCRIPT)
    running.wait_for("ready.0.0", "ready.1.0")
    return running


def run_interactive(flota, _chance):
    running = flota.start("--interactive", SCRIPT, start_new_session=True)
    running.wait_for("ready.0.0")
    return running


def run_warm(flota, _chance):
    running = flota.start(*FLAGS, "--warm", "decimal", SCRIPT)
    running.wait_for("ready.0.0", "ready.1.0")
    return running


def start_cold(flota, chance):
    running = flota.start(*FLAGS, SCRIPT)
    time.sleep(chance.uniform(0.02, 0.15))  # the very moment is what is tried, not waited for
    return running


def start_warm(flota, chance):
    running = flota.start(*FLAGS, "--warm", "decimal", SCRIPT)
    time.sleep(chance.uniform(0.05, 0.4))
    return running


def restart(flota, chance):
    running = flota.start(*FLAGS, "--max_restart", 1, SCRIPT)
    running.wait_for("ready.0.0", "ready.1.0")
    os.kill(children(running.shepherd())[0], signal.SIGKILL)
    time.sleep(chance.uniform(0.15, 0.35))  # the other worker is killed after the grace period
    return running


def spawn(flota, _chance):
    (flota.directory / "spawns.py").write_text(SPAWNS)
    running = flota.start(flota.directory / "spawns.py", WORKERS / SCRIPT, command=[sys.executable])
    running.wait_for("ready.0.0", "ready.1.0")
    return running


# Which processes are killed.


def by_name(running):
    """As `pkill flota`."""
    return [pid for pid in tree(running) if "flota" in name_of(pid)]


def by_command_line(running):
    """As `pkill -f flota`."""
    return [pid for pid in tree(running) if "flota" in command_line(pid)]


def by_script(running):
    """As `pkill -f does_all.py`, which matches the workers as well."""
    return [pid for pid in tree(running) if SCRIPT in command_line(pid)]


def node(running):
    return [running.pid]


def shepherd(running):
    return shepherds(running)


def caller_and_node(running):
    return [running.pid, *children(running.pid)]


def tree(running):
    return [running.pid, *descendants(running.pid)]


def shepherds(running):
    """The node has their name as well while it forks one."""
    return [pid for pid in descendants(running.pid) if name_of(pid) == SHEPHERD]


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""  # gone


def kill_all(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def has_ended_or_continues(running, killed):
    """A job continues with another shepherd if its shepherd is killed when a restart has been decided, or before a warm
    start has succeeded."""
    names = set(os.listdir(running.directory))
    is_ready = any({f"ready.0.{attempt}", f"ready.1.{attempt}"} <= names for attempt in range(2))
    continues = is_ready and not {*shepherds(running)} <= {*killed}
    return continues or running.process.poll() is not None


def assert_all_end(flota, running, killed=()):
    wait_until(lambda: has_ended_or_continues(running, killed), "the end")
    kill_all([running.pid])
    running.output()
    assert_nobody_left(spared=flota.before)
    for ready in flota.directory.glob("ready.*"):
        ready.unlink()


@pytest.mark.parametrize("victims", [by_name, by_command_line, by_script, node, shepherd])
@pytest.mark.parametrize("begin", [run_cold, run_interactive, run_warm, start_cold, start_warm, restart])
def test_no_process_survives_a_kill(flota, begin, victims):
    chance = random.Random(f"{begin.__name__} {victims.__name__}")
    for _ in range(KILLS):
        running = begin(flota, chance)
        killed = victims(running) or [running.pid]  # if it has not even become flota yet

        kill_all(killed)

        assert_all_end(flota, running, killed)


@pytest.mark.parametrize("victims", [by_command_line, caller_and_node])
def test_no_process_that_a_program_spawned_survives_a_kill(flota, victims):
    for _ in range(KILLS):
        running = spawn(flota, None)

        kill_all([*victims(running), running.pid])

        assert_all_end(flota, running)


@pytest.mark.parametrize("begin", [run_cold, run_interactive, run_warm, spawn])
def test_only_the_shepherd_has_its_title(flota, begin):
    running = begin(flota, None)

    named = {pid for pid in tree(running) if name_of(pid) == SHEPHERD}
    titled = {pid for pid in tree(running) if command_line(pid) == SHEPHERD}

    assert named == titled
    assert len(named) == 1


@pytest.mark.parametrize("begin", [run_cold, run_interactive, run_warm, spawn])
def test_no_process_survives_the_death_of_a_node_whose_shepherd_is_stopped(flota, begin):
    for _ in range(KILLS):
        running = begin(flota, None)
        stop(shepherds(running)[0])

        kill_all([running.pid])

        assert_all_end(flota, running)


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state(pid) == "T", "it to stop")


@pytest.mark.parametrize("begin", [run_cold, run_warm])
def test_a_job_whose_shepherd_is_stopped_can_be_stopped(flota, begin):
    running = begin(flota, None)
    stop(running.shepherd())

    os.kill(running.pid, signal.SIGTERM)

    assert running.wait() == 128 + signal.SIGTERM
    assert_nobody_left(spared=flota.before)


def test_a_shepherd_that_is_stopped_again_and_again_is_killed(flota):
    running = run_cold(flota, None)
    (pid,) = shepherds(running)

    os.kill(running.pid, signal.SIGTERM)
    give_up = time.monotonic() + EXIT_DEADLINE
    while running.process.poll() is None and time.monotonic() < give_up:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.0001)

    assert running.wait(0) == 128 + signal.SIGTERM
    assert_nobody_left(spared=flota.before)


def start_stopped_worker(flota):
    """A job whose worker is stopped between vfork and exec. Until the exec, its shepherd waits in the kernel, and the
    worker has copies of the shepherd's pipes."""
    program = flota.directory / "program"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    fd = os.open(program, os.O_RDONLY)
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # which is ignored, unlike SIGIO
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)  # the exec waits until this lease ends
        running = flota.start("--grace", "0.2", "--no-python", program)
        shepherd = running.shepherd()
        wait_until(lambda: children(shepherd), "a worker")
        (worker,) = children(shepherd)
        stop(worker)
        assert name_of(worker) == SHEPHERD
    finally:
        os.close(fd)
    return running


@pytest.mark.parametrize(("victim", "number"), [("node", signal.SIGTERM), ("shepherd", signal.SIGKILL)])
def test_a_worker_that_is_stopped_before_its_exec_does_not_block_the_end(flota, victim, number):
    running = start_stopped_worker(flota)

    os.kill(running.pid if victim == "node" else running.shepherd(), number)

    assert running.wait() == 128 + number
    assert_nobody_left(spared=flota.before)


def test_a_warm_start_whose_shepherd_is_stopped_at_once_can_be_stopped(flota):
    (flota.directory / "stops.py").write_text(STOPS_SHEPHERD)
    (flota.directory / "train.py").write_text("import time\ntime.sleep(60)\n")
    running = flota.start(*FLAGS, "--warm", "stops", "train.py")
    running.wait_for("stopped")
    wait_until(lambda: state(running.shepherd()) == "T", "it to stop")

    os.kill(running.pid, signal.SIGTERM)

    assert running.wait() == 128 + signal.SIGTERM
    assert_nobody_left(spared=flota.before)


def test_a_shepherd_that_is_stopped_before_it_starts_workers_does_not_survive_the_node(flota):
    (flota.directory / "stops.py").write_text(STOPS_ITSELF)
    running = flota.start("stops.py", *FLAGS, SCRIPT, command=[sys.executable])
    wait_until(lambda: state(running.shepherd()) == "T", "it to stop")

    kill_all([running.pid])

    running.wait()
    assert_nobody_left(spared=flota.before)


def test_a_program_can_be_interrupted_if_the_supervisor_of_its_workers_is_stopped(flota):
    (flota.directory / "spawns.py").write_text(SPAWNS.replace("nprocs=2", "nprocs=2, grace=0.2"))
    running = flota.start("spawns.py", WORKERS / SCRIPT, command=[sys.executable])
    running.wait_for("ready.0.0", "ready.1.0")
    (supervisor,) = children(running.pid)
    stop(supervisor)

    os.kill(running.pid, signal.SIGINT)

    assert running.wait() == -signal.SIGINT
    assert_nobody_left(spared=flota.before)


def test_a_supervisor_of_spawned_workers_that_is_stopped_again_and_again_is_killed(flota):
    (flota.directory / "spawns.py").write_text(KILLS_WORKERS)
    running = flota.start("spawns.py", command=[sys.executable])
    running.wait_for("killing")
    (supervisor,) = children(running.pid)

    give_up = time.monotonic() + EXIT_DEADLINE
    (flota.directory / "go").touch()
    while running.process.poll() is None and time.monotonic() < give_up:
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGSTOP)
        time.sleep(0.0001)

    assert running.wait(0) == 0
    assert_nobody_left(spared=flota.before)


def test_a_stopped_shepherd_of_parked_interpreters_does_not_block_the_end(flota):
    (flota.directory / "jax.py").touch()
    (flota.directory / "train.py").write_text(
        "import flota, os, time\nflota.heartbeat(1)\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\n"
    )
    running = flota.start("--warm", "jax", "--max_restart", 1, "train.py")
    first = running.shepherd()
    wait_until(lambda: len(running.shepherds()) == 2, "a shepherd for the next round")
    (parked,) = set(running.shepherds()) - {first}
    stop(parked)

    (flota.directory / "go").touch()

    assert running.wait() == 0
    assert_nobody_left(spared=flota.before)
