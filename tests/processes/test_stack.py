"""`flota stack` beside a running job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from types import SimpleNamespace

import pytest

from flota.hangs import capture
from flota.hangs.question import POSITIONS
from flota.hangs.watch import StackAnswers
from flota.host.loop import Loop
from flota.job.survey_outcomes import Question
from tests.launching import COMMAND, assert_nobody_left, environment, survivors, wait_until


@pytest.fixture
def hung(flota):
    """A job of three workers in which rank 1 sleeps, and nobody watches."""
    running = flota.start("--nproc_per_node", 3, "hangs.py", "sleep", 1)
    running.wait_for(*(f"step.0.{rank}.3" for rank in range(3)))
    wait_until(lambda: "2 of 3 ranks: waiting" in stack(flota).stdout, "the others to wait for it")
    return running


def stack(flota, *words, cwd=None):
    return subprocess.run(
        [COMMAND, "stack", *map(str, words)],
        cwd=cwd or flota.directory,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_shows_what_all_ranks_wait_on(flota, hung):
    ended = stack(flota)

    assert ended.returncode == 0, ended.stderr
    assert "2 of 3 ranks: waiting on a socket in receive at hangs.py:" in ended.stdout
    assert "rank 1: asleep in hang at hangs.py:" in ended.stdout
    assert "if this is a hang: rank 1 blocks the others" in ended.stdout
    assert all(f"rank {rank} (pid " in ended.stdout for rank in range(3))
    assert ended.stdout.count("  MainThread") == 3
    assert hung.process.poll() is None


def test_it_shows_some_ranks(flota, hung):
    ended = stack(flota, 1, "--log_dir", flota.directory / "log")

    assert "rank 1 (pid " in ended.stdout and "rank 0" not in ended.stdout


def test_it_shows_a_job_of_another_directory_as_json(flota, hung, tmp_path):
    ended = stack(flota, "--job", hung.pid, "--json", cwd=tmp_path.parent)

    answer = json.loads(ended.stdout)
    assert [(one["rank"], one["kind"]) for one in answer["ranks"]] == [(0, "waits"), (1, "elsewhere"), (2, "waits")]
    assert "if this is a hang: rank 1 blocks the others" in answer["summary"]
    assert answer["stacks"].count("  MainThread") == 3


def test_it_shows_native_frames(flota, hung):
    assert "recv" in stack(flota, 0, "--native").stdout


def test_it_watches(flota, hung):
    words = [COMMAND, "stack", "--watch=0.2"]
    watching = subprocess.Popen(words, cwd=flota.directory, env=environment(), stdout=subprocess.PIPE, text=True)
    lines = [watching.stdout.readline() for _ in range(8)]
    watching.send_signal(signal.SIGINT)
    watching.communicate()

    assert watching.returncode == 130
    assert sum("rank 1: asleep in hang" in line for line in lines) == 2


def test_it_watches_until_the_job_ends(flota, hung):
    words = [COMMAND, "stack", "--watch=0.2"]
    watching = subprocess.Popen(words, cwd=flota.directory, env=environment(), stdout=subprocess.PIPE, text=True)
    watching.stdout.readline()
    os.kill(hung.pid, signal.SIGTERM)
    hung.wait()
    told, _ = watching.communicate()

    assert (watching.returncode, told.splitlines()[-1]) == (0, "the job has ended")


def test_a_rank_that_is_not_here_is_named(flota, hung):
    ended = stack(flota, 7)

    assert ended.returncode == 2
    assert ended.stderr.startswith("flota: error: rank 7 is not running on this machine; running here: 0, 1, 2\n")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--log_dir", "nowhere"], "no running job on this machine uses the log directory"),
        (["--native=3"], "unknown flag `--native=3`"),
        (["--whatever"], "unknown flag `--whatever`"),
        (["x"], "for flota stack: expected a whole number"),
        (["--log_dir"], "--log-dir needs a value"),
        (["--at", "127.0.0.1:1", "3"], "flota stack cannot read `3` from another machine"),
        (["--native", "--at", "127.0.0.1:1"], "flota stack cannot read `--native` from another machine"),
        (["--at", "127.0.0.1:1"], "cannot ask 127.0.0.1:1: connection refused"),
        (["--job", "no such job"], "no "),
        (["--watch=x"], "for --watch: expected a duration"),
        (["--watch=0"], "for --watch: expected a duration above 0"),
    ],
)
def test_mistakes_are_reported_in_one_line(flota, words, error):
    ended = stack(flota, *words)

    assert ended.returncode == 2
    assert error in ended.stderr.split("\n")[0]


def test_a_job_that_has_ended_has_no_stacks(flota):
    flota.run("prints.py")

    assert "no running job on this machine uses" in stack(flota, "--log_dir", "log").stderr


def test_numbers_that_are_other_processes_now_are_left_alone(flota, hung):
    [path] = flota.directory.glob("log/events.*.jsonl")
    with path.open("a") as log:
        log.write(f'{{"event": "worker_started", "rank": 9, "pid": {os.getpid()}}}\nhalf a li')

    ended = stack(flota)

    assert ended.returncode == 0
    assert "rank 9" not in ended.stdout


def test_a_node_that_ends_leaves_no_look_behind(tmp_path, monkeypatch):
    spy = tmp_path / "py-spy"
    spy.write_text("#!/bin/sh\nexec sleep 600\n")
    spy.chmod(0o755)
    monkeypatch.setattr(capture, "find_spy", lambda _: str(spy))
    worker = SimpleNamespace(rank=0, local_rank=0, name="trainer", stderr="")
    stack_answers = StackAnswers(
        SimpleNamespace(
            environ={},
            loop=Loop(),
            spec=SimpleNamespace(nodes=None),
            started=SimpleNamespace(
                plans=[SimpleNamespace(worker=worker)],
                roster=SimpleNamespace(seats=[SimpleNamespace(host="gpu1")]),
                seat=0,
            ),
            evidence=SimpleNamespace(pids={0: os.getpid()}),
            supervisor=SimpleNamespace(alive={0}),
        )
    )
    before = survivors()
    stack_answers.answer_user(Question(1, POSITIONS))
    assert set(survivors()) - set(before)

    stack_answers.taker.stop()

    assert_nobody_left(spared=before)


def test_help_is_had_without_a_job(flota):
    assert stack(flota, "--help").stdout.startswith("usage: flota stack")


def test_it_needs_py_spy(flota, hung, tmp_path_factory):
    import sys

    python = tmp_path_factory.mktemp("bin") / "python"
    python.symlink_to(os.path.realpath(sys.executable))
    source = os.path.dirname(os.path.dirname(__import__("flota").__file__))

    ended = subprocess.run(
        [python, "-m", "flota", "stack"], cwd=flota.directory, capture_output=True, text=True, check=False,
        env=environment({"PYTHONPATH": source, "PATH": "/usr/bin:/bin"}),
    )  # fmt: skip

    assert ended.returncode == 2
    assert "hint: run `pip install py-spy`, or `pip install '.[stacks]'` in a clone" in ended.stderr
    wait_until(lambda: hung.process.poll() is None, "the job to go on")
