"""States that outlive workers, in real processes without a framework."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.launching import WORKERS, children, environment, survivors, wait_until

KILLS = 50 if os.environ.get("FLOTA_SOAK") else 4
STEPS = 40 * KILLS


def starts_and_saves(log: str) -> list[tuple[int, int]]:
    """Of each attempt in a rank's log: the step that it began at, and the last step that it saved."""
    found = []
    for part in log.split("start ")[1:]:
        start = int(part.split()[0])
        found.append((start, max([start, *map(int, re.findall(r"^saved (\d+)$", part, re.MULTILINE))])))
    return found


@pytest.mark.parametrize("words", [(), ("sharded",), ("warm",)], ids=["replicated", "sharded", "standby"])
def test_ranks_that_are_killed_at_any_moment_lose_at_most_a_step(flota, words):
    options = ["--warm", "json"] if "warm" in words else []
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)

    job = flota.start(
        *("--nproc_per_node", 2, "--max_restart", 3 * KILLS, "--crash_loop", 0, "--backoff", "0.05s", "--grace", "2s"),
        *(*options, "saves_states.py", STEPS, *words),
        env={"KILLS": str(KILLS)},
    )
    for kill in range(KILLS):
        wait_until(lambda before=kill: _has_saved(flota, before), "the next steps")
        time.sleep(chance.random() / 10)
        workers = [pid for shepherd in job.shepherds() for pid in children(shepherd)]
        if workers:
            os.kill(chance.choice(workers), signal.SIGKILL)
    _, err = job.output(120)

    assert job.process.returncode == 0, err
    attempts = [starts_and_saves(flota.log(rank)) for rank in (0, 1)]
    assert len(attempts[0]) == len(attempts[1]) > 1
    for before, after in pairwise(zip(*attempts, strict=True)):
        reached = [last for _, last in before]
        [start] = {first for first, _ in after}
        assert max(reached) - 1 <= start <= max(reached) + 1  # a state may be whole before its line is printed
    for rank in (0, 1):
        total = sum(range(STEPS)) * (1 + rank if "sharded" in words else 1)
        assert f"end {total} {list(range(STEPS - 10, STEPS))}" in flota.log(rank)


def _has_saved(flota, kills):
    """Whether both ranks have saved some steps since that many restarts."""
    try:
        logs = [flota.log(rank) for rank in (0, 1)]
    except FileNotFoundError:
        return False
    parts = [log.split("start ") for log in logs]
    return all(len(part) > kills + 1 and part[-1].count("saved") > 5 for part in parts)


def test_a_job_that_cannot_restart_writes_files(flota):
    first = flota.run("saves_states.py", 3)
    second = flota.run("saves_states.py", 5)

    assert (first.returncode, second.returncode) == (0, 0)
    assert "start 3\nflota: writing snapshots to " in flota.log(0)
    assert "flota: continuing from step 3 of snapshots/train.trainer.3.0.1.snapshot (to start" in flota.log(0)
    assert sorted(os.listdir(flota.directory / "snapshots")) == [
        f"train.trainer.{step}.0.1.snapshot" for step in (4, 5)
    ]


def test_a_state_that_is_too_large_is_reported_and_the_job_goes_on(flota):
    ended = flota.run("--max_restart", 1, "--snapshot_memory", "100K", "saves_states.py", 5)

    assert ended.returncode == 0
    log = flota.log(0)
    assert log.count("flota: warning: snapshots are off: rank 0 needs") == 1
    assert "may take 0 MB; see --snapshot_memory" in log
    assert f"end {sum(range(5))}" in log


def test_a_program_and_a_fork_of_a_worker_do_not_write_its_state(flota):
    inner = "import flota; flota.snapshot('train', directory='inner').save(90, n=1)"
    (flota.directory / "train.py").write_text(
        "import flota, os, subprocess, sys\n"
        "snap = flota.snapshot('train')\n"
        "print('start', snap.load(), snap.value('n'), flush=True)\n"
        "snap.save(5, n=1)\n"
        "if os.fork() == 0:\n"
        "    snap.save(80, n=2)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        f"subprocess.run([sys.executable, '-c', {inner!r}], check=True, stderr=subprocess.DEVNULL)\n"
        "sys.exit(flota.env().attempt == 0)\n"
    )

    ended = flota.run("--max_restart", 1, "--backoff", "0s", "train.py")

    assert ended.returncode == 0, ended.stderr
    assert flota.log(0).splitlines() == ["start 0 None", "start 5 1"]
    assert "snapshots: ranks continue from the state of step 5\n" in ended.stderr


def test_a_plain_script_continues_from_its_files(tmp_path):
    for steps in (4, 6):
        ended = subprocess.run(
            [sys.executable, WORKERS / "saves_states.py", str(steps)],
            cwd=tmp_path,
            env=environment({"FLOTA_ROUND": "0"}),
            capture_output=True,
            text=True,
            check=True,
        )

    assert ended.stdout.splitlines() == ["start 4", "saved 5", "saved 6", "end 15 [0, 1, 2, 3, 4, 5]"]


def test_a_later_job_continues_from_the_last_state(flota):
    """The node writes it when the workers are gone, also in a job that cannot restart."""
    words = "--nproc_per_node", 2, "--snapshot_dir", "states", "--snapshot_every", "1h", "saves_states.py"
    first = flota.run(*words, 30)
    assert (first.returncode, os.listdir(flota.directory / "states")) == (0, ["train.trainer.30.0.2.snapshot"])

    second = flota.run(*words, 40)
    other = flota.run("--nproc_per_node", 3, *words[2:], 50)

    assert (second.returncode, other.returncode) == (0, 0), second.stderr + other.stderr
    assert "start 30\n" in flota.log(1)
    assert "start 40\n" in flota.log(2)
    assert f"end {sum(range(50))} " in flota.log(2)
    steps = sorted(name.split(".")[2] for name in os.listdir(flota.directory / "states"))
    assert steps == ["40", "50"]


@pytest.mark.parametrize("nodes", [(), ("--nnodes", "1:2")], ids=["one-machine", "several"])
def test_nothing_is_started_if_states_cannot_be_written(flota, nodes):
    (flota.directory / "taken").write_text("")

    ended = flota.run(*nodes, "--snapshot_dir", "taken", "saves_states.py", 3)

    assert ended.returncode == 2
    assert "cannot write to the snapshot directory" in ended.stderr
    assert "taken`: it is not a directory\n" in ended.stderr
    assert not (flota.directory / "log").exists()


@pytest.mark.parametrize("at", [1 << 16, 0], ids=["body", "first-page"])
@pytest.mark.parametrize("words", [(), ("sharded",)], ids=["replicated", "sharded"])
def test_a_later_job_continues_from_the_state_before_a_damaged_one(flota, words, at):
    command = "--nproc_per_node", 2, "--snapshot_dir", "states", "saves_states.py"
    for steps in (10, 20):
        assert flota.run(*command, steps, *words).returncode == 0
    damaged = f"train.trainer.20.{len(words)}.2.snapshot"
    with open(flota.directory / "states" / damaged, "r+b") as file:
        file.seek(at)
        file.write(bytes(2000))

    again = flota.run(*command, 30, *words)

    assert again.returncode == 0, again.stderr
    assert again.stderr.count(f"{damaged} is damaged: it is ") == 1
    assert f"{damaged}.damaged" in os.listdir(flota.directory / "states")
    assert "snapshots: ranks continue from the state of step 10\n" in again.stderr
    assert f"end {sum(range(30)) * (2 if words else 1)} " in flota.log(1)


def test_parts_of_another_number_of_ranks_are_refused(flota):
    words = "--snapshot_dir", "states", "saves_states.py"
    first = flota.run("--nproc_per_node", 2, *words, 10, "sharded")
    assert len(os.listdir(flota.directory / "states")) == 2

    again = flota.run("--nproc_per_node", 2, *words, 20, "sharded")
    other = flota.run("--nproc_per_node", 3, *words, 30, "sharded")

    assert (first.returncode, again.returncode, other.returncode) == (0, 0, 1), again.stderr + other.stderr
    assert "start 10\n" in flota.log(1)
    assert "has the parts of 2 ranks, and the job has 3 now" in other.stderr


@pytest.mark.parametrize("words", [(), ("sharded",)], ids=["replicated", "sharded"])
def test_a_killed_job_continues_from_what_was_written_meanwhile(flota, words):
    command = "--nproc_per_node", 2, "--snapshot_dir", "states", "--snapshot_every", "0.5s", "saves_states.py"
    job = flota.start(*command, 100_000, *words)
    files = 2 if words else 1
    wait_until(lambda: len(written(flota)) >= 2 * files, "two states on the disk")
    job.process.kill()
    job.wait()
    wait_until(lambda: set(survivors()) <= set(flota.before), "its workers to be gone")
    steps = [step for step in set(written(flota)) if written(flota).count(step) == files]

    again = flota.run(*command, max(steps) + 10, *words)

    assert again.returncode == 0, again.stderr
    last = max(steps) + 10
    assert f"start {max(steps)}\n" in flota.log(1)
    assert f"end {sum(range(last)) * (2 if words else 1)} " in flota.log(1)


def written(flota):
    """The steps of the files that are there."""
    directory = flota.directory / "states"
    return [int(name.split(".")[2]) for name in os.listdir(directory) if name[0] != "."] if directory.exists() else []


def test_a_copier_that_is_killed_is_started_again(flota):
    """It also stays when its node must kill what a lost shepherd has left."""
    command = (
        "--max_restart",
        3,
        "--backoff",
        "0.05s",
        "--snapshot_dir",
        "states",
        "--snapshot_every",
        "0.2s",
        "saves_states.py",
    )
    job = flota.start(*command, 100_000)
    wait_until(lambda: written(flota), "a state on the disk")
    [first] = copiers(job)

    os.kill(first, signal.SIGKILL)
    wait_until(lambda: copiers(job) not in ([], [first]), "another copier")
    [second], reached = copiers(job), max(written(flota))
    wait_until(lambda: max(written(flota)) > reached, "a later state on the disk")
    os.kill(job.shepherds()[0], signal.SIGKILL)
    wait_until(lambda: flota.log(0).count("start ") == 2, "the next round")

    assert copiers(job) == [second]
    job.process.terminate()
    _, err = job.output(60)
    assert err.count("snapshots: the process for copies of states has ended unexpectedly; starting it again\n") == 1


def copiers(job):
    found = []
    for pid in children(job.process.pid):
        try:
            found += [pid] * (b"flota.snapshots.copier" in Path(f"/proc/{pid}/cmdline").read_bytes())
        except OSError:
            continue
    return found
