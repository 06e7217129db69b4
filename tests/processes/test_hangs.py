"""Hangs of real workers on one machine: found in time, with the right suspect, and never where there is work."""

from __future__ import annotations

import json
import os
import time

import pytest

from tests.launching import WORKERS, slow_spy, wait_until

SOAK = bool(os.environ.get("FLOTA_SOAK"))
LAST_STEP = 3  # as in workers/hangs.py
TIMEOUT = 4.0
PATIENCE = 150.0  # seconds, on a machine that has other work, too. How soon a hang is found, bench/ measures
KINDS = {
    "sleep": "asleep in hang at hangs.py:",
    "deadlock": "waiting for a lock in hang at hangs.py:",
    "gil": "holding the GIL in hang at hangs.py:",
    "busy": "busy in hang at hangs.py:",
    "stopped": "stopped by a signal, in hang at hangs.py:",
    "pipe": "blocked on a pipe in hang at hangs.py:",
    "server": "waiting on a socket in hang at hangs.py:",
    "poll": "asleep in watch at hangs.py:",
    "queue": "in Queue.get at hangs.py:",
    "left": "exited with code 0 after ",
}
QUIET = (
    "compile", "children", "checkpoint", "evaluation", "remote evaluation", "native evaluation", "download", "upload",
    "library", "pickle", "threads",
)  # fmt: skip


def hang(flota, kind, *flags, culprit=1, words=(), **options):
    """A job in which a rank hangs, and how long that took to be found."""
    running = flota.start(
        "--nproc_per_node",
        3,
        "--hang-timeout",
        TIMEOUT,
        "--grace",
        1,
        *flags,
        "hangs.py",
        kind,
        culprit,
        *words,
        **options,
    )
    running.wait_for("step.0.0.3", "step.0.2.3")
    began = max(path.stat().st_mtime for path in flota.directory.glob("step.0.*.3"))
    wait_until(lambda: "hang_found" in events(flota), "a hang to be found", PATIENCE)
    return running, time.time() - began


def events(flota):
    return "".join(path.read_text() for path in flota.directory.glob("log/events.*.jsonl"))


def report(flota):
    return json.loads((flota.directory / "log" / "report.json").read_text())


@pytest.mark.parametrize(
    ("kind", "beats"),
    [(kind, False) for kind in KINDS] + [(kind, True) for kind in KINDS if SOAK or kind in ("sleep", "busy", "left")],
)
def test_a_hang_is_found_and_its_rank_named(flota, kind, beats):
    running, took = hang(flota, kind, words=["beats"] if beats else [])
    _, err = running.output()

    assert running.wait() == 124
    assert took > 0.7 * TIMEOUT
    assert err.count("the job is hanging: ") == 1
    assert f"the job is hanging: no {'step' if beats else 'output'} for " in err
    assert "rank 1 blocks the others" in err
    assert ("rank 1 exited too early: exit code 0 after " if kind == "left" else "rank 1 hung: detected after ") in err
    [failure] = report(flota)["failures"]
    cause = "left-early" if kind == "left" else "hung"
    assert (failure["rank"], failure["cause"], report(flota)["exit_code"]) == (1, cause, 124)
    assert failure["last_step"] == (LAST_STEP if beats else None)
    assert any(line.startswith("rank 1: ") and KINDS[kind] in line for line in failure["said"])
    stacks = (flota.directory / "log" / "stacks.0.txt").read_text()
    assert "receive" in stacks and (kind == "left" or "    hang (" in stacks)


def test_lost_packets_blame_no_rank(flota):
    running, _ = hang(flota, "dropped")
    _, err = running.output()

    assert running.wait() == 124
    assert "no rank stands out" in err and "the job hung: detected after " in err
    [failure] = report(flota)["failures"]
    assert (failure["rank"], failure["cause"]) == (None, "hung")


def test_the_first_rank_can_be_the_one(flota):
    hang(flota, "sleep", culprit=0)[0].wait()

    assert report(flota)["failures"][0]["rank"] == 0


@pytest.mark.parametrize("wrapper", ["calls", "spawns"])
def test_what_a_wrapper_waits_for_is_named_in_its_place(flota, wrapper):
    ended = flota.run(
        "--nproc_per_node", 3, "--hang-timeout", 2, "--grace", 1, "wraps.py", wrapper, "hangs.py", "sleep", 1
    )

    assert ended.returncode == 124
    assert "rank 1 blocks the others" in ended.stderr
    assert "2 of 3 ranks: waiting on a socket in receive at hangs.py:" in ended.stderr
    assert "rank 1: asleep in hang at hangs.py:" in ended.stderr


def test_a_hang_is_a_failure_that_is_restarted(flota):
    running, _ = hang(flota, "sleep", "--max_restart", 1)
    _, err = running.output()

    assert running.wait() == 0
    assert "rank 1 hung: detected after" in err and "restarting (1 of 1)" in err
    assert err.count("the job is hanging") == 1
    assert "3 workers finished successfully" in err


@pytest.mark.parametrize("kind", ["sleep", "gil", "stopped", "left"])
def test_without_py_spy_stacks_are_what_aborted_workers_leave_behind(flota, kind, installed):
    running, _ = hang(flota, kind, **installed())
    _, err = running.output()

    assert running.wait() == 124
    assert err.count("cannot read stacks, so only silence indicates a hang") == 1
    assert "no rank makes progress" not in err
    assert "s, and there is no I/O or child process activity\n" in err
    assert "2 of 3 ranks: waiting on a socket in receive at hangs.py:" in err or kind == "left"
    [failure] = report(flota)["failures"]
    assert (failure["rank"], failure["cause"]) == (1, "left-early" if kind == "left" else "hung")
    assert "receive (" in (flota.directory / "log" / "stacks.0.txt").read_text()


@pytest.mark.parametrize("spy", ["", "echo Permission Denied; exit 1"], ids=["none", "denied"])
def test_a_warning_that_stacks_cannot_be_read_comes_before_any_hang(flota, spy, installed):
    how = installed(spy)
    how["env"]["STAGE"] = str(flota.directory)
    with (flota.directory / "screen").open("wb") as screen:
        running = flota.start("--hang-timeout", 4, "steps.py", stderr=screen, **how)
    said = f"cannot read stacks, so only silence indicates a hang ({'Permission Denied' if spy else 'py-spy is not installed'}"
    wait_until(lambda: said in (flota.directory / "screen").read_text(), "a warning")
    (flota.directory / "finish").touch()

    assert running.wait() == 0
    assert (flota.directory / "screen").read_text().count("cannot read stacks") == 1


def test_output_that_comes_while_stacks_are_taken_saves_the_job(flota, installed):
    flags = ("--nproc_per_node", 1, "--hang-timeout", 1, "--native-stacks")

    ended = flota.run(*flags, "speaks_late.py", **installed(slow_spy(flota.directory)))

    assert (ended.returncode, "the job is hanging" in ended.stderr) == (0, False)
    assert (flota.directory / "dumped").exists()


@pytest.mark.parametrize("kind", QUIET)
def test_a_quiet_job_that_works_is_left_alone(flota, kind):
    ended = flota.run("--nproc_per_node", 2, "--hang-timeout", 2, "works_quietly.py", kind, 8)

    assert ended.returncode == 0
    assert "the job is hanging" not in ended.stderr
    assert ended.stderr.count("but rank 0 is active: ") == 1
    assert not list(flota.directory.glob("log/stacks.*"))


def test_a_rank_may_work_after_it_has_waited_long_for_anothers_work(flota):
    ended = flota.run("--nproc_per_node", 2, "--hang-timeout", 1, "works_quietly.py", "in turn", 4.5)

    assert (ended.returncode, "the job is hanging" in ended.stderr) == (0, False)


def test_what_a_wrapper_waits_for_may_be_at_work(flota):
    words = ("--nproc_per_node", 2, "--hang-timeout", 2, "wraps.py", "calls", "works_quietly.py", "download", 5)
    ended = flota.run(*words)

    assert ended.returncode == 0
    assert "is active: it is sending or receiving" in ended.stderr


def test_native_frames_are_had_on_request(flota):
    hang(flota, "stopped", "--native-stacks")[0].wait()

    stacks = (flota.directory / "log" / "stacks.0.txt").read_text()
    assert "recv" in stacks.partition("rank 1 (pid")[0].lower()
    assert "    hang (" in stacks  # of the one that stands already, what can be had


def test_a_job_that_is_not_watched_hangs_on(flota):
    running = flota.start("--nproc_per_node", 2, "hangs.py", "sleep", 1)
    running.wait_for("step.0.0.3", "step.0.1.3")

    with pytest.raises(Exception, match="timed out"):
        running.wait(timeout=3)


@pytest.mark.parametrize("word", ["0", "-3", "never", "0.5"])
def test_a_bad_timeout_is_refused(flota, word):
    ended = flota.run("--hang-timeout", word, WORKERS / "prints.py")

    assert ended.returncode == 2
    assert f"invalid value `{word}` for --hang-timeout: expected a duration of 1s or more, or auto" in ended.stderr
