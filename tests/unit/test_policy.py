"""The restart policy, as a table."""

from __future__ import annotations

import pytest

from flota.job.report import EXITED, NOT_STARTED, SHEPHERD_LOST, SIGNALLED
from flota.job.spec import RestartPolicy
from flota.supervise.blame import abort_line, duration_in_words, ending_in_words
from flota.supervise.policy import should_restart

ON = RestartPolicy(3, enabled=True)
OFF = RestartPolicy(3)
LEAVES = RestartPolicy(3, enabled=True, elastic_level=0)
IN_PLACE = RestartPolicy(3, enabled=True, elastic_level=1)


@pytest.mark.parametrize(
    ("cause", "attempt", "policy", "restarts"),
    [
        (EXITED, 0, ON, True),
        (SIGNALLED, 0, ON, True),
        (SHEPHERD_LOST, 0, ON, True),
        (NOT_STARTED, 0, ON, False),
        (EXITED, 2, ON, True),
        (EXITED, 3, ON, False),
        (EXITED, 0, OFF, False),
        (EXITED, 0, LEAVES, False),
        (EXITED, 0, IN_PLACE, True),
        (EXITED, 0, RestartPolicy(0, enabled=True), False),
    ],
)
def test_what_restarts(cause, attempt, policy, restarts):
    assert should_restart(cause, attempt, policy) is restarts


def test_the_abort_line_is_exactly_so():
    assert (
        abort_line(8, [3, 2])
        == "ABORT!!! Out of all 8 trainers, the trainer process with rank=[2,3] was aborted. Please check its log."
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "exit code 3"),
        (-11, "SIGSEGV (segmentation fault)"),
        (-10, "SIGUSR1"),
        (-63, "signal 63"),
        (-6, "SIGABRT (aborted itself)"),
        (-17, "SIGCHLD"),
    ],
)
def test_endings_in_words(code, words):
    assert ending_in_words(code) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.04, "0.0 s"), (12.34, "12.3 s"), (75, "1 min 15 s"), (3700, "1 h 1 min")]
)
def test_durations_in_words(seconds, words):
    assert duration_in_words(seconds) == words
