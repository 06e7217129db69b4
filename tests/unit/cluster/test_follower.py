"""One node's part: what it says when it only serves, and what it is told when the job has ended."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flota.cluster import node_record
from flota.cluster.follower import Follower
from flota.cluster.job_state import ENDED, ROLL_CALL, RUNNING, STACKS, JobState
from flota.cluster.node_actions import Abort, Answer, Begin, GoOn, Leave, Offer, Recall, Release, TakeStacks
from flota.cluster.node_record import NodeRecord, decode_record, encode_record
from flota.hangs.wait_sites import RankPosition
from flota.job.report import FAILED, STOPPED, SUCCEEDED, FailedWorker, JobEnding
from flota.job.roster import NO_PORTS, Seat
from tests.rosters import ports_of

SEATS = (
    Seat("own", "host0", "10.0.0.1", ports_of(1, 2, 3, 4)),
    Seat("other", "host1", "10.0.0.2", ports_of(1, 2, 3, 4)),
)
FAULT = FailedWorker(0, 0, "host1", 1, 3, "exited", "exit code 3", 1.0, "log")


def advance(node, *job_states):
    """Its orders, but for the answer to a roll call, which is given at once."""
    for job_state in job_states:
        node.hear(job_state)
    while (orders := node.advance(0.0, None, "nowhere")) == [Answer()]:
        node.answers(1.0, reached=118)
    return orders


@pytest.fixture
def working():
    """A node whose workers run."""
    node = Follower("own", NodeRecord("job", "host0", "10.0.0.1", NO_PORTS, 2, 2, ("torch",)), patience=60, lifeline=3)
    assert advance(node) == [Offer(0)]
    node.offered(ports_of(1, 2, 3, 4), 0)
    running = JobState(RUNNING, seats=SEATS)
    assert advance(node, running) == [Begin(running, 0)]
    return node


def test_a_node_whose_servers_alone_are_left_says_so(working):
    working.only_serves()

    assert working.record.state == node_record.SERVING
    assert advance(working) == [], "it goes on serving"


def test_a_serving_node_answers_the_roll_call_and_is_recalled(working):
    working.only_serves()

    orders = advance(working, JobState(ROLL_CALL, seats=SEATS, failures=(FAULT,)))

    assert working.record.state == node_record.HERE
    assert orders == [Recall()]


def test_it_tells_how_far_its_workers_are_when_one_of_the_job_has_failed(working):
    running = working.record
    working.failed((FAULT,), reached=118)
    own = working.record
    working.record = running
    advance(working, JobState(ROLL_CALL, seats=SEATS, failures=(FAULT,)))

    assert [record.reached for record in (running, own, working.record)] == [-1, 118, 118]


def test_a_node_that_finds_itself_serving_while_the_roll_is_called_answers_again(working):
    advance(working, JobState(ROLL_CALL, seats=SEATS, failures=(FAULT,)))
    working.only_serves()

    advance(working)

    assert working.record.state == node_record.HERE


@pytest.mark.parametrize(("kind", "order"), [(SUCCEEDED, Release()), (FAILED, Recall()), (STOPPED, Recall())])
def test_servers_are_released_by_success_and_recalled_by_any_other_end(working, kind, order):
    working.only_serves()
    ended = JobState(ENDED, seats=SEATS, ending=JobEnding(kind))

    assert advance(working, ended) == [order]
    assert advance(working) == [], "once"

    working.swept(well=True)
    assert advance(working) == [Leave(JobEnding(kind))]


def test_who_leaves_does_not_say_that_it_serves(working):
    working.stop(15, 0.0)
    working.only_serves()

    assert working.record.state == node_record.LEAVING


def test_who_waits_for_a_seat_has_no_stacks_to_take():
    node = Follower("late", NodeRecord("job", "host2", "10.0.0.3", NO_PORTS, 2, 3, ("torch",)), patience=60, lifeline=3)
    advance(node)
    node.offered(ports_of(1, 2, 3, 4), 0)

    assert advance(node, JobState(STACKS, seats=SEATS)) == []


def test_stacks_are_taken_once_a_round_and_the_roll_is_answered_after_them(working):
    asked = JobState(STACKS, seats=SEATS)
    post = RankPosition(0, "waits", "in all_reduce at train.py:88", "trainer", "", 0, 0, 7, "log", 3.0)

    assert advance(working, asked) == [TakeStacks()]
    assert advance(working, asked) == []
    working.stacked((post,))
    assert (working.record.state, working.record.positions) == (node_record.STACKED, (post,))
    assert decode_record(encode_record(working.record)) == working.record
    assert advance(working, JobState(ROLL_CALL, seats=SEATS, failures=(FAULT,))) == [Recall()]
    assert working.record.state == node_record.HERE


def test_workers_are_aborted_for_their_stacks_once_and_when_all_others_have_been_seen(working):
    asked = JobState(STACKS, seats=SEATS)
    advance(working, asked)
    working.cannot_see()

    assert advance(working, asked) == []
    assert advance(working, replace(asked, aborts=True)) == [Abort()]
    assert advance(working) == []


def test_a_job_that_moves_after_all_goes_on(working):
    working.stands_still(90.0, 60.0)
    advance(working, JobState(STACKS, seats=SEATS))
    working.stacked((RankPosition(0, "waits", "in all_reduce at train.py:88", "trainer", "", 0, 0, 7, "log", 3.0),))
    advance(working, JobState(RUNNING, seats=SEATS))
    assert working.record.state == node_record.STACKED, "that was before"

    assert advance(working, JobState(RUNNING, seats=SEATS, false_alarms=1)) == [GoOn()]
    assert (working.record.state, working.record.stands, working.record.positions) == (node_record.RUNNING, 0.0, ())
    assert advance(working) == []
    assert advance(working, JobState(STACKS, seats=SEATS, false_alarms=1)) == [TakeStacks()], "for another time"


def test_a_node_that_is_done_tells_of_its_ranks_and_stays_done(working):
    working.swept(well=True)

    assert advance(working, JobState(STACKS, seats=SEATS)) == [TakeStacks()]
    working.stacked((RankPosition(0, "ended", "ended with 0", "trainer", "", 0, 0, 7, "log", 3.0),))

    assert working.record.state == node_record.DONE


@pytest.mark.parametrize("bad", [{"kind": "elsewhen"}, {"words": "\x1b[31m"}, {"log": "a\nb"}])
def test_a_record_with_posts_of_another_kind_is_no_record(working, bad):
    post = RankPosition(0, "waits", "in f", "trainer", "", 0, 0, 1, "", 0.0)._replace(**bad)
    working.stacked((post,))

    assert decode_record(encode_record(working.record)) is None
