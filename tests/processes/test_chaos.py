"""`--chaos` on real workers: faults come, the job recovers, and a verdict is printed."""

from __future__ import annotations

import json

import pytest

from tests.launching import assert_nobody_left

TRAIN = """
import os, time, flota
done = "done." + os.environ["FLOTA_RANK"]
step = int(open(done).read()) if os.path.exists(done) else 0
while step < 60:
    time.sleep(0.05)
    step += 1
    with open(done + ".new", "w") as file:
        file.write(str(step))
    os.replace(done + ".new", done)
    flota.heartbeat(step, total=60)
"""
RECOVERS = ("--nproc_per_node", 2, "--max_restart", 1000, "--backoff", 0, "--crash-loop", 0)


@pytest.fixture
def train(flota):
    (flota.directory / "train.py").write_text(TRAIN)
    return "train.py"


def injected(flota):
    (events,) = (flota.directory / "log").glob("events.*.jsonl")
    found = map(json.loads, events.read_text().splitlines())
    return [event["kind"] for event in found if event["event"] == "fault_injected"]


@pytest.mark.parametrize("kind", ["kill", "shepherd"])
def test_a_job_recovers_from_faults_of_workers_and_shepherds(flota, train, kind):
    ended = flota.run(*RECOVERS, "--chaos", f"{kind}=0.7s,seed=5", train)

    faults = injected(flota)
    assert ended.returncode == 0, ended.stderr
    assert set(faults) == {kind}
    assert "(seed=5 repeats them)" in ended.stderr
    assert f"chaos: the job survived {len(faults)} fault" in ended.stderr.splitlines()[-1]
    assert_nobody_left()


def test_a_suspended_worker_is_found_as_a_hang(flota, train):
    ended = flota.run(*RECOVERS, "--hang_timeout", "1s", "--chaos", "hang=1s,seed=5", train)

    assert ended.returncode == 0, ended.stderr
    assert "chaos: suspending rank" in ended.stderr
    restarts = json.loads((flota.directory / "log" / "report.json").read_text())["restarts"]
    assert len(restarts) == len(injected(flota))
    assert all("hang" in restart["reason"] for restart in restarts), restarts
    assert_nobody_left()


def test_a_job_that_gives_up_has_not_survived(flota, train):
    ended = flota.run("--max_restart", 1, "--chaos", "kill=0.1s,seed=2", train)

    assert ended.returncode == 137, ended.stderr
    assert "chaos: the job did not survive 2 faults (2 kill), with 1 restart" in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--chaos", "burn=1m", "--max_restart", 3], "burn=1m"),
        (["--chaos", "kill=1m"], "--max_restart"),
        (["--chaos", "hang=1m", "--max_restart", 3], "--hang_timeout"),
        (["--chaos", "node=1m", "--max_restart", 3], "--nnodes"),
    ],
)
def test_faults_that_the_job_cannot_survive_are_refused(flota, train, flags, words):
    ended = flota.run(*flags, train)

    assert ended.returncode == 2
    assert words in ended.stderr
    assert not (flota.directory / "log").exists()
