"""Job states survive the wire, nothing else does, and a node that hears an earlier one ignores it."""

from __future__ import annotations

import zlib
from itertools import pairwise

import pytest

from flota.cluster.job_state import (
    DECIDING,
    ENDED,
    GATHERING,
    LARGEST,
    RUNNING,
    JobState,
    Refused,
    decode_state,
    encode_state,
    take_seat,
)
from flota.job.report import STOPPED, FailedWorker, JobEnding
from flota.job.survey_outcomes import Question, Result
from flota.stragglers.detector import SlowRank
from flota.supervise.restart_policy import History
from tests.surveys import record_of

FAULT = FailedWorker(1, 0, "host0", 1, 3, "exited", "exit code 3", 1.0, "log")
SEATS = (
    take_seat("n0", record_of("host0", roles=("server", "trainer"), workers_by_role=(1, 0))),
    take_seat("n1", record_of("host1", roles=("server", "trainer"), workers_by_role=(0, 1))),
)


@pytest.mark.parametrize(
    "job_state",
    [
        JobState(GATHERING),
        JobState(GATHERING, 3, 2, SEATS, failures=(FAULT,), past=History(1, 1, "exited 3"), delay=1.0, left=("n2",)),
        JobState(
            GATHERING, why="host1 was lost", join_status="1 of 2 joined", refused={"n9": Refused("host9", "no room")}
        ),
        JobState(RUNNING, 1, 0, SEATS, slow=(SlowRank(1, "host1", 2.5),), results={"steps": Result(4, ("line",))}),
        JobState(DECIDING, 1, 0, SEATS, asked=5, question=Question(5, "preemption", "102")),
        JobState(ENDED, 1, 0, SEATS, ending=JobEnding(STOPPED, 143, 15, "host0 was asked to stop", (FAULT,))),
    ],
    ids=lambda state: state.phase,
)
def test_a_job_state_survives_the_wire(job_state):
    assert decode_state(encode_state(job_state)) == job_state


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"phase":"running"}',
        zlib.compress(b"{}"),
        zlib.compress(b'{"phase":"resting"}'),
        zlib.compress(b'{"phase":"deciding"}'),  # what?
        zlib.compress(b"[" * 100_000),
        zlib.compress(b'{"why":"' + b"a" * LARGEST + b'","phase":"running"}'),  # more than a roster can need
    ],
    ids=len,
)
def test_what_is_not_a_job_state_is_refused(garbage):
    assert decode_state(garbage) is None


def test_each_job_state_follows_those_before_it_and_no_other():
    question = Question(1, "stacks")
    states = [
        JobState(GATHERING),
        JobState(RUNNING),
        JobState(DECIDING, asked=1, question=question),
        JobState(RUNNING, asked=1),
        JobState(RUNNING, asked=2, question=question._replace(id=2)),
        JobState(RUNNING, asked=2),
        JobState(GATHERING, round=1, asked=2),
        JobState(RUNNING, round=1, asked=2),
        JobState(ENDED, round=1, asked=2),
    ]

    assert states[0].follows(None)
    for earlier, later in pairwise(states):
        assert later.follows(earlier) and not earlier.follows(later)
        assert later.follows(later), "it may have changed in what has no order"
