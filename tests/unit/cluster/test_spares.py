"""Which nodes get a seat if there are more than seats, and which node is swapped for one that waits."""

from __future__ import annotations

from msgspec.structs import replace

from flota.cluster.job_state import RUNNING, JobState, take_seat
from flota.cluster.node_record import READY, NodeRecord, Present
from flota.cluster.seating import seat
from flota.cluster.spares import Spares, choose_nodes
from flota.cluster.terms import Terms
from flota.stragglers.detector import StepTime
from tests.rosters import ports_of

TERMS = Terms("job", 2, 2, ("torch",), spares=2, evict=1.5)
FIRST = JobState(RUNNING, 1)


def node(name, came=0, workers=1, round_number=1, **facts):
    ports = ports_of(*range(1, workers + 4))
    record = NodeRecord("job", f"host-{name}", "10.0.0.1", ports, 2, 2, ("torch",), round=round_number, spares=2)
    return Present(name, came, replace(record, state=READY, **facts))


def job_of(*nodes, **facts):
    return JobState(RUNNING, 1, seats=tuple(take_seat(one.node, one.record) for one in nodes), **facts)


def chosen(present, job=FIRST):
    return [one.node for one in choose_nodes(present, job, TERMS)]


def test_who_comes_first_is_seated_and_the_store_is_served_from_a_seat():
    assert chosen([node("c", 3), node("a", 1), node("b", 2)]) == ["a", "b"]
    assert chosen([node("c", 3, serves=True), node("a", 1), node("b", 2)]) == ["c", "a"]


def test_without_spares_all_are_seated():
    assert choose_nodes([node("a"), node("b")], JobState(RUNNING), TERMS._replace(spares=0)) == [node("a"), node("b")]


def test_survivors_stay_even_if_they_are_not_ready_and_the_first_ready_spare_joins_them():
    a, b = node("a", 9, round_number=0), node("b", 8)
    job = job_of(a, b)

    assert chosen([a, b, node("c", 1)], job) == ["b", "a"]
    assert chosen([a, node("c", 1, round_number=0), node("d", 2)], job) == ["a", "d"]
    assert chosen([a, node("c", 1, round_number=0)], job) == ["a", "c"]


def test_a_spare_with_the_workers_of_the_lost_node_is_preferred():
    a, b = node("a", 1, workers=8), node("b", 2, workers=8)

    assert chosen([a, node("c", 3, workers=4), node("d", 4, workers=8)], job_of(a, b)) == ["a", "d"]
    assert chosen([a, node("c", 3, workers=4)], job_of(a, b)) == ["a", "c"]


def test_an_evicted_node_is_the_last_resort():
    a, b, c = node("a", 1), node("b", 2), node("c", 3)
    job = job_of(a, b, evicted=("b",))

    assert chosen([a, b, c], job) == ["a", "c"]
    assert chosen([a, b], job) == ["a", "b"]


def test_a_rank_that_another_node_has_by_now_is_not_insisted_on():
    first, spare, back = node("a", 1, rank=0), node("c", 3), node("b", 4, rank=1)
    job = job_of(first, spare)

    seats = seat(choose_nodes([spare, back], job, TERMS), job.seats)

    assert [row.node for row in seats] == ["b", "c"]  # node 1 stays where it is
    assert [row.node for row in seat(choose_nodes([first, spare, back], job, TERMS), job.seats)] == ["a", "c"]


def test_those_who_wait_are_listed_by_the_running_round_only():
    a, b, c = node("a", 1), node("b", 2), node("c", 3)
    spares = Spares(TERMS)
    job = spares.note(job_of(a, b), [c, a, b])

    assert [(row.node, row.workers) for row in job.spares] == [("c", 0)]
    assert spares.note(job, [a, b, replace(c, record=replace(c.record, ports=ports_of(7, 8, 9, 10)))]) is job
    assert Spares(TERMS._replace(spares=0)).note(job_of(a), [a, b]).spares == ()


def test_the_reason_of_a_round_names_who_takes_over():
    a, b, c, d = (node(name, came) for came, name in enumerate("abcd"))
    spares = Spares(TERMS)

    assert spares.with_successors("b was lost", [a, c], job_of(a, b), ()) == (
        "b was lost; replaced by the spare host-c"
    )
    assert spares.with_successors("both were lost", [c, d], job_of(a, b), ()).endswith(
        "; replaced by the spares host-c, host-d"
    )
    assert spares.with_successors("b left", [a, b], job_of(a, b), {"b"}) == "b left"
    assert spares.with_successors("", [a, b, c], job_of(a, b), ()) == ""


def slow_job(**facts):
    """Node b takes twice as long."""
    a, b = node("a", 1, steps=(StepTime(0, 1.0),)), node("b", 2, steps=(StepTime(1, 2.0),))
    return job_of(a, b, **facts), [a, b]


def finds(spares, job, present):
    """Whether it is found when half a minute has passed."""
    return [spares.find_straggler(job, present, at) for at in (0.0, 10.0, 20.0, 30.0)][-1]


def test_a_straggler_is_evicted_once_if_a_spare_waits():
    job, present = slow_job()
    spares = Spares(TERMS)

    assert not finds(spares, job, present)
    assert spares.find_straggler(job, [*present, node("c", 3)], 31.0)
    job, why = spares.evict(job)
    assert why == "host-b is evicted: the steps of rank 1 take 2.0 times as long as those of the other ranks"
    assert job.evicted == ("b",)
    assert not spares.find_straggler(job, [*present, node("c", 3)], 32.0)


def test_an_evicted_node_does_not_replace_a_straggler():
    job, present = slow_job(evicted=("c",))
    assert not finds(Spares(TERMS), job, [*present, node("c", 3)])


def test_the_factor_is_the_users():
    job, present = slow_job()
    assert not finds(Spares(TERMS._replace(evict=2.5)), job, [*present, node("c", 3)])
    assert not finds(Spares(TERMS._replace(evict=0.0)), job, [*present, node("c", 3)])
