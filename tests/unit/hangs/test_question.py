"""What follows from what all ranks of a job wait on, for a user who asks and for a job that hangs; and when all nodes of
a round are idle together."""

from __future__ import annotations

import pytest

from flota.cluster.job_state import RUNNING as ROUND_RUNS
from flota.cluster.job_state import JobState, take_seat
from flota.cluster.node_record import DONE, FAILED, RUNNING, SERVING
from flota.errors import HANG
from flota.hangs.question import (
    ABORT,
    IDLE_PART,
    MOST_SUSPECTS,
    POSITIONS,
    POSITIONS_TIME,
    STACKS,
    STACKS_TIME,
    AllIdle,
    PositionsAnswer,
    decide_positions,
    decide_stacks,
    no_answer_from,
    shortest_timeout,
)
from flota.hangs.wait_sites import RankPosition
from flota.job.causes import HUNG, LEFT_EARLY
from flota.job.report import FailedWorker
from flota.job.survey_outcomes import AskAgain, CallRoll, Publish, Question, Resume, Wait
from tests.surveys import ASKED_AT, present_of, survey_of

FAULT = FailedWorker(0, 0, "gpu0", 1, 3, "exited", "exit code 3", 1.0, "log")
BLIND, MOVES = PositionsAnswer(blind=True), PositionsAnswer(makes_progress=True)


def answer(rank, kind="collective", words="in all_reduce at train.py:88", **facts):
    position = RankPosition(rank, kind, words, "trainer", f"gpu{rank}", 0, 0, 7, "", 1.0)
    return PositionsAnswer((position._replace(**facts),))


def asked(question, answers, states=(RUNNING,) * 3, **facts):
    """Nodes of one rank each."""
    failures = {FAILED: (FAULT,)}
    present = [
        present_of(f"gpu{rank}", state=state, failures=failures.get(state, ()), idle=90.0, timeout=60.0)
        for rank, state in enumerate(states)
    ]
    return survey_of(question, present, answers, **facts)


def positions(answers, *states, **facts):
    return asked(Question(1, POSITIONS), answers, states or (RUNNING,) * 3, job=JobState(ROUND_RUNS), **facts)


def stacks(answers, *states, argument="", **facts):
    return asked(Question(1, STACKS, argument), answers, states or (RUNNING,) * 3, **facts)


def test_a_user_gets_an_answer_when_all_have_answered_or_time_is_up():
    some = positions({"gpu0": answer(0), "gpu2": answer(2)})

    assert decide_positions(some) == Wait(ASKED_AT + POSITIONS_TIME)
    assert decide_positions(some._replace(now=ASKED_AT + POSITIONS_TIME)).lines[-1] == "no answer from gpu1"


def test_a_finished_node_is_not_waited_for():
    outcome = decide_positions(positions({"gpu0": answer(0), "gpu2": answer(2)}, RUNNING, DONE, SERVING))

    assert isinstance(outcome, Publish)
    assert outcome.lines[0] == "all 2 ranks: in all_reduce at train.py:88"


def test_of_one_rank_nothing_is_suspected():
    assert decide_positions(positions({"gpu0": answer(0)}, RUNNING)) == Publish(
        ("rank 0 on gpu0: in all_reduce at train.py:88",)
    )


def test_of_many_silent_nodes_eight_are_named():
    assert no_answer_from([]) == ()
    assert no_answer_from([f"n{number}" for number in range(10)]) == (
        "no answer from n0, n1, n2, n3, n4, n5, n6, n7 and 2 more",
    )


@pytest.mark.parametrize("state", [FAILED, SERVING])
def test_a_node_that_has_failed_or_serves_is_not_waited_for(state):
    outcome = decide_stacks(stacks({"gpu0": answer(0), "gpu1": answer(1)}, RUNNING, RUNNING, state))

    assert isinstance(outcome, CallRoll)


def test_a_node_that_is_done_is_waited_for_while_its_record_is_there():
    waiting = stacks({"gpu0": answer(0), "gpu1": answer(1)}, RUNNING, RUNNING, DONE, done={"gpu2"})
    without = {node: one for node, one in waiting.present.items() if node != "gpu2"}

    assert decide_stacks(waiting) == Wait(ASKED_AT + STACKS_TIME)
    assert isinstance(decide_stacks(waiting._replace(present=without)), CallRoll)


def test_workers_are_aborted_only_when_all_others_have_been_seen():
    assert decide_stacks(stacks({"gpu0": answer(0), "gpu1": BLIND})) == Wait(ASKED_AT + STACKS_TIME)
    assert decide_stacks(stacks({"gpu0": answer(0), "gpu1": BLIND, "gpu2": BLIND})) == AskAgain(ABORT)


def test_progress_is_an_excuse_until_workers_are_aborted():
    assert decide_stacks(stacks({"gpu0": answer(0), "gpu1": MOVES})) == Resume()
    assert decide_stacks(stacks({"gpu0": answer(0), "gpu1": MOVES}, argument=ABORT)) == Wait(ASKED_AT + STACKS_TIME)


def test_the_rank_that_blocks_the_others_is_blamed_with_what_is_known():
    odd = answer(2, "elsewhere", "in next(loader) at data.py:41", pid=9, log="log2", step=4)
    [failed] = decide_stacks(stacks({"gpu0": answer(0, step=5), "gpu1": answer(1, step=5), "gpu2": odd})).failures

    assert (failed.rank, failed.node, failed.pid, failed.log, failed.step) == (2, "gpu2", 9, "log2", 4)
    assert (failed.code, failed.cause) == (HANG, HUNG)
    assert failed.said[0].startswith("no step for ")


def test_a_rank_that_left_early_is_blamed_for_that():
    left = answer(2, "ended", "exited with code 0")
    [failed] = decide_stacks(stacks({"gpu0": answer(0), "gpu1": answer(1), "gpu2": left})).failures

    assert (failed.rank, failed.cause) == (2, LEFT_EARLY)
    assert failed.hint
    assert failed.said[0].startswith("no output for ")


def test_if_no_rank_stands_out_none_is_blamed():
    [failed] = decide_stacks(stacks({f"gpu{rank}": answer(rank) for rank in range(3)})).failures

    assert (failed.rank, failed.node) == (-1, "gpu0")


def test_of_many_suspects_some_are_blamed():
    answers = {f"gpu{rank}": answer(rank) for rank in range(12)}
    answers |= {f"gpu{rank}": answer(rank, "elsewhere", "in f at data.py:41") for rank in range(12, 22)}
    outcome = decide_stacks(stacks(answers, *[RUNNING] * 22))

    assert len(outcome.failures) == MOST_SUSPECTS


def idle_node(host, *, idle=1800.0, timeout=60.0, state=RUNNING):
    return present_of(host, idle=idle, timeout=timeout, state=state)


def seats_of(*present):
    return tuple(take_seat(one.node, one.record) for one in present)


def test_idleness_of_all_nodes_is_measured_by_the_timeout_however_long_the_job_was_quiet_before():
    present = [idle_node("a"), idle_node("b")]
    all_idle, seats = AllIdle(), seats_of(*present)

    assert not all_idle.check(seats, present, (), 5.0)
    assert all_idle.deadline == 5.0 + IDLE_PART * 60.0
    assert all_idle.check(seats, present, (), all_idle.deadline)
    assert all_idle.deadline is None


def test_one_node_that_makes_progress_begins_idleness_again():
    present = [idle_node("a"), idle_node("b")]
    all_idle, seats = AllIdle(), seats_of(*present)
    all_idle.check(seats, present, (), 0.0)

    assert not all_idle.check(seats, [present[0], idle_node("b", idle=0.0)], (), 11.0)
    assert all_idle.deadline is None
    assert not all_idle.check(seats, present, (), 12.0)
    assert all_idle.deadline == 12.0 + IDLE_PART * 60.0


def test_the_shortest_timeout_counts():
    present = [idle_node("a", timeout=60.0), idle_node("b", timeout=20.0)]

    assert shortest_timeout(seats_of(*present), present, ()) == 20.0


def test_nodes_that_only_serve_or_are_done_are_not_waited_for():
    present = [idle_node("a"), idle_node("b", idle=0.0, state=SERVING), idle_node("c", idle=0.0, state=DONE)]
    seats = seats_of(*present)

    assert shortest_timeout(seats, present, {"c"}) == 60.0
    assert shortest_timeout(seats, present[1:], {"c"}) is None, "the record of one with work is not there"


def test_a_job_whose_nodes_all_serve_is_not_idle():
    present = [idle_node("a", state=SERVING)]

    assert shortest_timeout(seats_of(*present), present, ()) is None
