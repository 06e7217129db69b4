"""The messages about a whole job."""

from __future__ import annotations

import pytest

from flota.humanize import limit_in_words, signal_name
from flota.job.report import STOPPED, SUCCEEDED, JobEnding, PastRestart, Report, Verdict, after_timeout
from flota.job.spec import Command, DeviceSet, JobSpec, LogSpec
from flota.run.job_messages import start_message, stop_message, stopped_message, success_message


def report(kind=SUCCEEDED, code=0, attempt=0, seconds=11.8, signal=0, reason="", stopped_by="", sizes=None, **facts):
    verdict = Verdict(kind, code, attempt, (), signal, reason, stopped_by)
    return Report("job", verdict, sizes or {"trainer": 4}, 1, seconds, "/log", began=1000.0, **facts)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "all 4 workers finished successfully in 11.8 s"),
        ({"sizes": {"trainer": 1}, "seconds": 0.26}, "1 worker finished successfully in 0.3 s"),
        ({"sizes": {"server": 2, "trainer": 4}}, "2 servers, 4 trainers finished successfully in 11.8 s"),
        ({"sizes": {"data": 2, "heter": 1, "chief": 1}}, "2 data workers, 1 heter worker, 1 chief finished successfully in 11.8 s"),
        ({"sizes": {"readers": 2, "ps": 1}}, "2 readers, 1 ps worker finished successfully in 11.8 s"),
        (
            {"attempt": 2, "seconds": 192, "restarts": (PastRestart(0, 1040.0, "rank 2 FileNotFoundError"), PastRestart(1, 1100.5, "rank 0 SIGKILL"))},
            ("all 4 workers finished successfully in 3m12s "
            "(2 restarts: rank 2 FileNotFoundError at 0m40s, rank 0 SIGKILL at 1m40s)"),
        ),
        (
            {"restarts": (PastRestart(0, 8201.0, "gpu03 was lost", counted=False, lost=("gpu03",)),), "seconds": 7500},
            "all 4 workers finished successfully in 2h05m (gpu03 was lost at 2h00m)",
        ),
        (
            {"attempt": 6, "restarts": tuple(PastRestart(n, 1001.0 + n, "rank 1 OSError") for n in range(6))},
            ("all 4 workers finished successfully in 11.8 s (6 restarts: rank 1 OSError at 0m01s, "
            "rank 1 OSError at 0m02s, rank 1 OSError at 0m03s, rank 1 OSError at 0m04s and 2 more)"),
        ),
    ],
)  # fmt: skip
def test_success(facts, words):
    assert success_message(report(**facts)) == words


@pytest.mark.parametrize(
    ("facts", "stopped_by", "words"),
    [
        ({"code": 130, "signal": 2}, "SIGINT", "stopped by SIGINT after 11.8 s"),
        ({"code": 143, "signal": 15, "reason": "gpu02 was asked to stop"}, "", "stopped by SIGTERM after 11.8 s: gpu02 was asked to stop"),
        ({"code": 75, "signal": 15, "stop_step": 250}, "SIGUSR1", "preempted by SIGUSR1 after 11.8 s: all 4 ranks saved at step 250 and exited"),
        ({"code": 75, "signal": 15, "sizes": {"trainer": 1}}, "", "preempted by SIGTERM after 11.8 s: rank 0 saved and exited"),
    ],
)  # fmt: skip
def test_stopped(facts, stopped_by, words):
    assert stopped_message(report(STOPPED, stopped_by=stopped_by, **facts)) == words


@pytest.mark.parametrize(
    ("signal", "again", "words"),
    [
        (2, False, "stopping 4 workers (up to 30 s; press Ctrl-C again to kill now)"),
        (2, True, "killing 4 workers"),
        (15, False, "SIGTERM received; stopping 4 workers (up to 30 s)"),
        (15, True, "SIGTERM received"),
    ],
)
def test_stop(signal, again, words):
    assert stop_message(f"{signal_name(signal)} received", signal, 4, 30.0, again=again) == words


def test_stop_because_of_a_timeout():
    words = stop_message("--timeout 8h has passed", 15, 4, 30.0, again=False)

    assert words == "--timeout 8h has passed; stopping 4 workers (up to 30 s)"


@pytest.mark.parametrize(
    ("code", "words"),
    [(143, "stopped after --timeout 8h"), (75, "stopped after --timeout 8h: all ranks saved and exited")],
)
def test_the_last_line_after_a_timeout(code, words):
    ending = after_timeout(JobEnding(STOPPED, code, 15, "host2 was asked to stop"), "8h")

    message = stopped_message(report(STOPPED, ending.code, reason=ending.reason))

    assert (ending.code, ending.signal, message) == (124, 0, words)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(8 * 3600.0, "8h"), (5400.0, "90m"), (1.0, "1s"), (0.5, "0.5s"), (3601.0, "3601s"), (43200.0, "12h")],
)
def test_a_time_limit_is_written_as_in_a_flag(seconds, words):
    assert limit_in_words(seconds) == words


def devices(*ids):
    return DeviceSet("gpu", "CUDA_VISIBLE_DEVICES", ids, ids, by_id=False)


@pytest.mark.parametrize(
    ("workers", "log", "facts", "words"),
    [
        (4, {}, {"devices": devices("0", "1", "2", "3")}, "4 workers on gpu01 (devices 0-3), showing rank 0, all output in log/"),
        (1, {}, {"devices": devices("5")}, "1 worker on gpu01 (device 5), all output in log/"),
        (2, {"console": "all"}, {"devices": devices("GPU-a", "GPU-b")}, "2 workers on gpu01 (devices GPU-a, GPU-b), showing all ranks, all output in log/"),
        (4, {"console": (1, 2)}, {}, "4 workers on gpu01 (CPU), showing ranks 1-2, all output in log/"),
        (4, {"console": "none"}, {}, "4 workers on gpu01 (CPU), showing no ranks, all output in log/"),
        (4, {"console": "none", "tee": 3}, {}, "4 workers on gpu01 (CPU), showing all ranks, all output in log/"),
        (1, {"directory": "/data/log"}, {}, "1 worker on gpu01 (CPU), all output in /data/log/"),
        (1, {}, {"interactive": True}, "1 worker on gpu01 (CPU), connected to this terminal"),
    ],
)  # fmt: skip
def test_start(workers, log, facts, words):
    spec = JobSpec(
        Command("script", "train.py", (), "python"), workers, LogSpec(**{"directory": "/job/log", **log}), **facts
    )
    assert start_message(spec, "gpu01", "/job") == words
