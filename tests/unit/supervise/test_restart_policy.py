"""The restart policy, as a table."""

from __future__ import annotations

import pytest

from flota.failures.blame import in_order_of_blame
from flota.failures.report_text import abort_line
from flota.humanize import duration_in_words, ending_in_words, workers_in_words
from flota.job import causes
from flota.job.causes import EXITED, NOT_STARTED, SHEPHERD_LOST, SIGNALLED
from flota.job.report import FailedWorker, exit_code_of_all
from flota.job.spec import RestartPolicy
from flota.supervise.restart_policy import History, decide

ON = RestartPolicy(3, enabled=True)
OFF = RestartPolicy(3)
REQUEUED = RestartPolicy(3, enabled=True, earlier=2)
LEAVES = RestartPolicy(3, enabled=True, elastic_level=0)
IN_PLACE = RestartPolicy(3, enabled=True, elastic_level=1)


def failure(cause=EXITED, code=1, **more):
    return FailedWorker(code=code, cause=cause, ran=more.pop("ran", 1.0), **more)


@pytest.mark.parametrize(
    ("cause", "attempt", "policy", "restarts"),
    [
        (EXITED, 0, ON, True),
        (SIGNALLED, 0, ON, True),
        (SHEPHERD_LOST, 0, ON, True),
        (NOT_STARTED, 0, ON, False),
        (EXITED, 2, ON, True),
        (EXITED, 3, ON, False),
        (EXITED, 4, REQUEUED, True),
        (EXITED, 5, REQUEUED, False),
        (EXITED, 0, OFF, False),
        (EXITED, 0, LEAVES, False),
        (EXITED, 0, IN_PLACE, True),
        (EXITED, 0, RestartPolicy(0, enabled=True), False),
        *((cause, 0, ON, False) for cause in causes.AT_START),
        *((cause, 0, ON, True) for cause in causes.ALL if cause not in causes.AT_START),
    ],
)
def test_what_restarts(cause, attempt, policy, restarts):
    assert decide(failure(cause), History(), attempt, policy).restarts is restarts


def test_what_a_role_calls_final_is_final():
    assert not decide(failure(final=True), History(), 0, ON).restarts


KILLED = failure(causes.KILLED, -9)
RAISED = failure(causes.EXCEPTION, 1, exception="data.reader.ShardError")


@pytest.mark.parametrize(
    ("failed", "reasons"),
    [
        (failure(code=7), ("7",)),
        (KILLED, ("SIGKILL",)),
        (KILLED, ("killed",)),
        (failure(causes.KILLED, 137), ("SIGKILL",)),
        (failure("left-early", 124), ("hung",)),
        (failure("left-early", 124), ("left-early",)),
        (failure(causes.KILLED, 137), ("137",)),
        (failure(code=-10), ("SIGUSR1",)),
        (RAISED, ("ShardError",)),
        (RAISED, ("3", "data.reader.ShardError")),
        (failure(causes.MISSING_MODULE), ("missing-module",)),
    ],
)
def test_failures_are_named_by_code_signal_exception_or_cause(failed, reasons):
    assert decide(failed, History(), 0, ON._replace(restart_on=reasons)).restarts
    assert not decide(failed, History(), 0, ON._replace(no_restart_on=reasons)).restarts
    assert not decide(failed, History(), 0, ON._replace(restart_on=("9",))).restarts
    assert not decide(failed, History(), 0, ON._replace(restart_on=reasons, no_restart_on=reasons)).restarts


def test_what_would_fail_at_a_start_is_tried_again_once_it_has_worked():
    worked = decide(failure(step=7), History(), 0, ON).history

    assert decide(failure(causes.FAILED_IMPORT), worked, 1, ON).restarts


OFTEN = ON._replace(limit=100)


def play(failures, policy=OFTEN):
    """The decisions on failures that follow each other."""
    history, decisions = History(), []
    for attempt, failed in enumerate(failures):
        decisions.append(decide(failed, history, attempt, policy))
        history = decisions[-1].history
    return decisions


def test_a_crash_loop_without_progress_ends_early_and_is_waited_out_before():
    decisions = play([failure()] * 5)

    assert [decision.restarts for decision in decisions] == [True] * 4 + [False]
    assert [decision.delay for decision in decisions[:4]] == [0, 0, 1, 2]
    assert decisions[4].why == "the same failure 5 times in a row, without progress"


def test_failures_of_several_kinds_are_waited_out_but_no_loop():
    decisions = play([failure(code=number) for number in range(1, 11)])

    assert all(decision.restarts for decision in decisions)
    assert [decision.delay for decision in decisions] == [0, 0, 1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.parametrize(
    "failures",
    [
        [failure(ran=61.0)] * 9,
        [failure(step=10 * number) for number in range(1, 10)],
        [failure(causes.KILLED, -9)] * 9,
        [failure(causes.TERMINATED, -15)] * 9,
    ],
)
def test_progress_and_what_comes_from_outside_are_no_crash_loop(failures):
    assert all(decision.restarts and not decision.delay for decision in play(failures))


def test_steps_that_are_done_again_are_no_progress():
    assert not play([failure(step=100, ran=99.0)] * 6)[-1].restarts


def test_a_crash_loop_and_the_wait_can_be_turned_off():
    policy = RestartPolicy(100, enabled=True, backoff=0.0, crash_loop=0)

    assert all(decision.restarts and not decision.delay for decision in play([failure()] * 50, policy))


def test_the_abort_line_is_exactly_so():
    assert (
        abort_line(8, [3, 2])
        == "ABORT!!! Out of all 8 trainers, the trainer process with rank=[2,3] was aborted. Please check its log."
    )
    assert abort_line(1, [0]) == "ABORT!!! The trainer process with rank=[0] was aborted. Please check its log."


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "exit code 3"),
        (-11, "SIGSEGV (segmentation fault)"),
        (-10, "SIGUSR1"),
        (-63, "signal 63"),
        (-6, "SIGABRT (aborted)"),
        (-17, "SIGCHLD"),
    ],
)
def test_endings_in_words(code, words):
    assert ending_in_words(code) == words


@pytest.mark.parametrize(("seconds", "words"), [(0.04, "0.0 s"), (12.34, "12.3 s"), (75, "1m15s"), (3700, "1h01m")])
def test_durations_in_words(seconds, words):
    assert duration_in_words(seconds) == words


def end(at, code=1, said=(), **facts):
    return FailedWorker(0, 0, "host", 1, code, "exited", "", 0.0, "", said, at=at, **facts)


EARLY, LATE = end(1.0), end(2.0)
SECONDARY, STOPPED, LEFT = end(0.5, is_secondary=True), end(3.0, asked_to_stop=True), end(0.1, 0)
REFUSED = end(0.6, is_secondary=True, exception="ConnectionRefusedError")
AN_HOUR_LATER, A_WHILE_LATER = (end(at, is_secondary=True, exception="BrokenPipeError") for at in (3600.0, 900.0))
GLOO = "RuntimeError: [gloo/transport/tcp] Timed out waiting 1800000ms for recv operation to complete"
GAVE_UP = end(1900.0, is_secondary=True, exception="RuntimeError", said=(GLOO,))
ABORTED = end(1900.0, -6, is_secondary=True, said=("Fatal Python error: Aborted",))
LEFT_LATER = end(800.0, 0)


@pytest.mark.parametrize(
    ("found", "order"),
    [
        ([LATE, EARLY], [EARLY, LATE]),
        ([SECONDARY, LATE, EARLY], [EARLY, LATE, SECONDARY]),
        ([SECONDARY], [SECONDARY]),
        ([SECONDARY, STOPPED], [STOPPED, SECONDARY]),
        ([SECONDARY, STOPPED, LEFT], [STOPPED, SECONDARY]),
        ([SECONDARY, LEFT], [LEFT, SECONDARY]),
        ([SECONDARY, REFUSED, LEFT], [LEFT, SECONDARY, REFUSED]),
        ([REFUSED, LEFT], [REFUSED]),
        ([REFUSED, STOPPED], [STOPPED, REFUSED]),
        ([EARLY, STOPPED, LEFT], [EARLY]),
        ([SECONDARY, end(0.2, asked_to_stop=True, is_secondary=True)], [SECONDARY]),
        ([AN_HOUR_LATER, LEFT], [AN_HOUR_LATER]),
        ([AN_HOUR_LATER, A_WHILE_LATER, LEFT, LEFT_LATER], [LEFT_LATER, A_WHILE_LATER, AN_HOUR_LATER]),
        ([GAVE_UP, LEFT], [LEFT, GAVE_UP]),
        ([ABORTED, LEFT], [LEFT, ABORTED]),
        ([GAVE_UP._replace(at=9000.0), LEFT], [GAVE_UP._replace(at=9000.0)]),
        ([LEFT], [LEFT]),
    ],
)
def test_who_is_to_blame(found, order):
    assert in_order_of_blame(found) == order


@pytest.mark.parametrize(
    ("ends", "expected"),
    [([(7, False), (1, False)], 7), ([(-9, False)], 137), ([(0, False), (-6, False)], 1), ([(-15, True), (4, False)], 4), ([(-15, True)], 1)],
)  # fmt: skip
def test_the_exit_code_is_that_of_the_culprit_if_it_has_one(ends, expected):
    assert exit_code_of_all(end(0.0, code, asked_to_stop=asked) for code, asked in ends) == expected


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        ([("trainer", 3)], "rank 3"),
        ([("trainer", 1), ("trainer", 0), ("trainer", 4)], "ranks 0-1, 4"),
        ([("server", 0), ("server", 1), ("trainer", 2)], "servers 0-1; rank 2"),
        ([("data", 0), ("data", 1), ("heter", 2)], "data workers 0-1; heter 2"),
    ],
)
def test_workers_are_folded(workers, words):
    assert workers_in_words(workers) == words
