"""Crashes on one machine: the page names the right rank and the right cause."""

from __future__ import annotations

import json

import pytest

from tests.faults.groups import limited_group
from tests.faults.kinds import ADVANCES, CRASHES, EARLY, KINDS, MEMORY
from tests.launching import COMMAND, DEADLINE

CULPRIT, WORKERS = 2, 4


def crash(flota, fault, *words, **options):
    env = {"CULPRIT": str(CULPRIT), "FAULT": fault}
    return flota.run("--nproc_per_node", WORKERS, "--grace", 5, *words, CRASHES, env=env, **options)


def check(flota, result, kind, verb="failed first"):
    lines = result.stderr.splitlines()
    page = lines[next(number for number, line in enumerate(lines) if line.startswith("ABORT!!!")) :]
    report = json.loads((flota.directory / "log" / "report.json").read_text())
    first = report["failures"][0]
    assert page[1].startswith(f"rank {CULPRIT} {verb}: {kind.ending}"), result.stderr
    assert (first["rank"], first["cause"], result.returncode) == (CULPRIT, kind.cause, kind.code)
    assert [failure["rank"] for failure in report["failures"]] == [CULPRIT]
    assert {*(one["rank"] for one in report["secondary_failures"]), *report["stopped_by_flota"]} == {0, 1, 3}
    assert len(page) <= 25
    assert seconds_to_report(flota) < DEADLINE  # how fast it is, bench/blame.py measures


def seconds_to_report(flota):
    [path] = (flota.directory / "log").glob("events.*.jsonl")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    last = max(event["monotonic"] for event in events if event["event"] == "worker_exited")
    return next(event["monotonic"] for event in events if event["event"] == "job_ended") - last


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.fault)
def test_the_first_line_names_rank_and_cause(flota, kind):
    result = crash(flota, kind.fault)

    check(flota, result, kind)


def test_a_rank_that_left_while_others_worked_is_named(flota):
    result = crash(flota, EARLY.fault)

    check(flota, result, EARLY, "exited too early")
    assert "all ranks must run the same number of steps" in result.stderr


def test_an_oom_kill_is_distinguished_from_a_kill_by_a_user(flota):
    with limited_group(256) as group:
        enter = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$0" "$@"', COMMAND]

        result = crash(flota, MEMORY.fault, command=enter)

    check(flota, result, MEMORY)
    assert "memory: cgroup limit 256 MiB, peak 25" in result.stderr


def test_a_program_that_cannot_run_is_named_and_not_tried_again(flota):
    (flota.directory / "not_a_program").write_text("hello")
    (flota.directory / "not_a_program").chmod(0o755)

    result = flota.run("--max_restart", 3, "--no-python", "./not_a_program")

    assert result.returncode == 127
    assert "rank 0 could not be started" in result.stderr
    assert "restarting" not in result.stderr


def test_a_segmentation_fault_shows_the_python_line(flota):
    result = crash(flota, "segfaults")

    lines = [line.strip() for line in result.stderr.partition("ABORT!!!")[2].splitlines()]
    assert "Fatal Python error: Segmentation fault" in lines
    assert any(line.endswith(" in string_at") for line in lines), "the innermost of many frames"


def test_what_was_raised_first_is_shown_and_what_its_clean_up_met(flota):
    result = crash(flota, "raises_and_cleans_up")

    page = result.stderr.partition("ABORT!!!")[2]
    assert "  ValueError: shard 17 is torn\n  then: ConnectionRefusedError: " in page


# Rank 0 ends well, and the other one goes on when that has been seen.
LEFT = """\
import os, socket, sys, time
if os.environ["RANK"] == "0":
    os.symlink(f"/proc/{os.getpid()}", "left")
    sys.exit(0)
while not os.path.islink("left") or os.path.exists("left"):
    time.sleep(0.01)
"""


def test_a_rank_that_has_finished_is_not_blamed_for_a_service_that_is_down(flota):
    (flota.directory / "w.py").write_text(f"{LEFT}socket.create_connection(('127.0.0.1', 1))")

    result = flota.run("--nproc_per_node", 2, "w.py")

    assert "rank 1 failed first: exit code 1 (lost the connection to another process)" in result.stderr
    assert "  ConnectionRefusedError: " in result.stderr


def test_the_report_shows_the_consequences_of_a_rank_that_left_too_early(flota):
    (flota.directory / "w.py").write_text(f"{LEFT}raise ConnectionResetError(104, 'Connection reset by peer')")

    result = flota.run("--nproc_per_node", 2, "w.py")

    assert "rank 0 exited too early: " in result.stderr
    assert "then rank 1 failed with exit code 1 (lost the connection to another process):" in result.stderr
    assert "  ConnectionResetError: [Errno 104] Connection reset by peer" in result.stderr


def test_verbose_shows_what_the_others_said(flota):
    quiet = crash(flota, "dies_slowly")
    verbose = crash(flota, "dies_slowly", "--verbose")

    words = "ConnectionResetError: [Errno 104] Connection reset by peer"
    assert (words in quiet.stderr, words in verbose.stderr) == (False, True)


@pytest.mark.parametrize("fault", ["lacks_a_module", "gets_local_rank", "has_no_script", "has_bad_syntax"])
def test_failures_at_the_start_use_no_restarts(flota, fault):
    result = crash(flota, fault, "--max_restart", 3)

    assert "restarting (1 of 3)" not in result.stderr
    assert "not restarted: it would fail in the same way" in result.stderr


@pytest.mark.parametrize(
    ("words", "restarts"),
    [
        (["--restart-on", "ValueError"], 1),
        (["--restart-on", "exception,7"], 1),
        (["--restart-on", "SIGKILL"], 0),
        (["--max_restart", 1, "--no-restart-on", "ValueError"], 0),
        (["--max_restart", 1, "--no-restart-on", "KeyError"], 1),
    ],
)
def test_restarts_follow_the_cause(flota, words, restarts):
    result = crash(flota, "raises", *words, "--crash-loop", 2)

    assert result.stderr.count("; restarting") == restarts
    assert ("not restarted: " in result.stderr) is (restarts == 0 or "--max_restart" not in words)


def test_a_crash_loop_ends_before_its_restarts_are_used_up(flota):
    result = crash(flota, "exits", "--max_restart", 50, "--backoff", "0.05")

    assert result.stderr.count("; restarting") == 4
    assert "not restarted: the same failure 5 times in a row, without progress" in result.stderr
    assert "restarting in 0.05 s (3 of 50)" in result.stderr


def test_a_step_that_another_rank_has_reached_is_progress(flota):
    env = {"CULPRIT": "1", "STAGE": str(flota.directory)}

    result = flota.run("--nproc_per_node", 2, *"--max_restart 4 --crash-loop 2 --backoff 0".split(), ADVANCES, env=env)

    assert result.stderr.count("; restarting") == 4
    assert "without progress" not in result.stderr


VICTIM = """\
import os, signal, sys, time, traceback

def is_ready(): open(f"ready.{os.environ['RANK']}", "w")

def wait():
    is_ready()
    time.sleep(600)

if os.environ["FLOTA_ROLE"] == "trainer":
    while not (os.path.exists("ready.0") and os.path.exists("ready.1")):
        time.sleep(0.01)
    raise ConnectionResetError(104, "Connection reset by peer")
"""


@pytest.mark.parametrize(
    "others",
    [
        "is_ready()",  # an evaluator whose work is done
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); wait()",
        "try: 1 / 0\nexcept ZeroDivisionError: traceback.print_exc()\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); wait()",
        "signal.signal(signal.SIGTERM, signal.default_int_handler); wait()",
    ],
)
def test_no_rank_is_blamed_for_being_stopped_or_for_an_exception_that_it_caught(flota, others):
    """The network is to blame, and the one that met it is all there is to name."""
    (flota.directory / "w.py").write_text(VICTIM + others)
    ignored = "on_failure = 'ignore'\n" if others == "is_ready()" else ""
    (flota.directory / "flota.toml").write_text(f"[roles.trainer]\ncount = 1\n[roles.evaluator]\ncount = 2\n{ignored}")

    result = flota.run("w.py")

    assert "rank 0 failed first: exit code 1 (lost the connection to another process)" in result.stderr, result.stderr
