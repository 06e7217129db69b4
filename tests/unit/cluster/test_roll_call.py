"""After a failure: clocks are compared, the order of failures follows, and nobody waits without need."""

from __future__ import annotations

import pytest
from flota.cluster.roll_call import DOUBT, SETTLE, TOLD_IN_FULL, RollCall, told_to_all
from msgspec.structs import replace

from flota.cluster import node_record
from flota.cluster.job_state import ROLL_CALL, JobState
from flota.cluster.node_record import NodeRecord, Present
from flota.job.report import FailedWorker
from flota.job.spec import RestartPolicy
from flota.supervise.restart_policy import History
from tests.rosters import ports_of

EPOCH = 1_000_000.0  # of the coordinator's clock
CALLED = 10.0


def fault(rank, at, code=1, **facts):
    return FailedWorker(
        rank, 0, f"host{rank}", 1, code, "exited", "exit code 1", 1.0, "log", ("said",), at=EPOCH + at, **facts
    )


def present(node, *faults, clock=0.0, state=node_record.FAILED, swept=True, said=0):
    record = NodeRecord(
        "job", node, "10.0.0.1", ports_of(1, 2, 3, 4), 2, 2, ("torch",), state=state, failures=faults, swept=swept
    )
    return Present(node, 1, replace(record, clock=clock and EPOCH + clock), said)


def roll_call(*answers, now=CALLED + 0.02):
    """A roll call that these have answered in 20 ms."""
    made = RollCall(CALLED, EPOCH)
    made.hear(list(answers), now)
    return made


@pytest.mark.parametrize("skew", [-5.0, -0.5, 0.5, 5.0])
def test_times_are_compared_by_the_clock_of_the_coordinator(skew):
    first = present("a", fault(0, 9.0 + skew), clock=CALLED + 0.01 + skew)
    second = present("b", fault(1, 9.1), clock=CALLED + 0.01)

    blamed = roll_call(first, second).blame([second, first])

    assert [(node, round(one.at - EPOCH, 3)) for node, one in blamed] == [("a", 9.0), ("b", 9.1)]


def test_clocks_that_may_agree_are_believed():
    made = roll_call(present("a", clock=CALLED + 0.001), present("b", clock=CALLED + 0.019))

    assert (made.ahead("a"), made.ahead("b")) == (0.0, 0.0)


def test_a_node_that_answered_late_was_late_to_hear():
    made = roll_call(present("a", clock=CALLED + 0.01))
    late = present("b", clock=CALLED + 5.0 + 1.99)

    made.hear([late], CALLED + 2.0)

    assert made.ahead("b") == pytest.approx(5.0)


def test_a_coordinator_that_did_not_call_compares_nothing():
    made = RollCall(CALLED, None)
    made.hear([present("a", clock=99.0)], CALLED + 1)

    assert made.ahead("a") == 0.0


def test_of_two_at_the_same_time_the_store_has_the_order():
    first, second = present("a", fault(0, 9.0), said=7), present("b", fault(1, 9.0), said=8)

    assert [node for node, _ in roll_call(first, second).blame([second, first])] == ["a", "b"]


@pytest.mark.parametrize(
    ("answers", "restarts", "wait"),
    [
        ([present("a", fault(0, 9.0)), present("b", state=node_record.HERE)], False, 0.0),
        ([present("a", fault(0, 9.0)), present("b", state=node_record.HERE, swept=False)], True, 0.0),
        ([present("a", fault(0, 9.0)), present("b", state=node_record.HERE, swept=False)], False, SETTLE),
        ([present("a", fault(0, 9.0, suffered=True)), present("b", state=node_record.HERE, swept=False)], True, DOUBT),
        ([present("a", fault(0, 9.0, suffered=True)), present("b", state=node_record.HERE)], True, 0.0),
        ([present("a", fault(0, 9.0)), present("b", fault(1, 9.0))], True, SETTLE),
        ([present("a", fault(0, 9.0), clock=1.0), present("b", fault(1, 9.0), clock=1.0)], True, 0.0),
        ([present("a", fault(0, 9.0)), present("b", state=node_record.DEAD, swept=False)], False, 0.0),
    ],
)
def test_nobody_waits_longer_than_it_takes_to_know(answers, restarts, wait):
    made, now = roll_call(*answers), CALLED + 0.02

    assert made.wait_until(answers, now, fault(0, 9.0), restarts=restarts) == now + wait


def test_a_suspect_of_another_node_is_to_blame_where_all_others_suffered():
    victim = present("a", fault(0, 9.0, suffered=True))
    culprit = present("b", fault(1, 9.5, code=-15, told=True), state=node_record.HERE)

    assert [node for node, _ in roll_call(victim, culprit).blame([victim, culprit])] == ["b", "a"]


@pytest.mark.parametrize(("reached", "restarts"), [(7, False), (8, True)])
def test_progress_is_what_any_rank_of_any_node_has_reached(reached, restarts):
    culprit, other = present("a", fault(0, 9.0)), present("b", state=node_record.HERE)
    answers = [culprit, Present("b", 1, replace(other.record, reached=reached))]
    job_state = JobState(ROLL_CALL, past=History(quick=4, same=4, kind="exited 1", best=7))

    found = roll_call(*answers).find(answers, job_state, RestartPolicy(9, enabled=True))

    assert found.decision.restarts is restarts
    assert (found.culprit.step, found.decision.history.best) == (-1, reached)


def test_a_job_state_tells_of_all_but_only_of_some_in_full():
    told = told_to_all([fault(rank, 9.0) for rank in range(TOLD_IN_FULL + 5)])

    assert len(told) == TOLD_IN_FULL + 5
    assert (told[0].said, told[-1].said, told[-1].ending) == (("said",), (), "exit code 1")
