"""When all nodes of a round have stopped making progress together."""

from __future__ import annotations

from flota.cluster.job_state import take_seat
from flota.cluster.node_record import DONE, RUNNING, SERVING
from flota.hangs.all_idle import TOGETHER, AllIdle, shortest_timeout
from tests.surveys import present_of


def idle(host, *, idle=1800.0, timeout=60.0, state=RUNNING):
    return present_of(host, idle=idle, timeout=timeout, state=state)


def seats_of(*present):
    return tuple(take_seat(one.node, one.record) for one in present)


def test_it_is_measured_by_the_timeout_however_long_the_job_was_quiet_before():
    present = [idle("a"), idle("b")]
    all_idle, seats = AllIdle(), seats_of(*present)

    assert not all_idle.lasts(seats, present, (), 5.0)
    assert all_idle.deadline == 5.0 + TOGETHER * 60.0
    assert all_idle.lasts(seats, present, (), all_idle.deadline)
    assert all_idle.deadline is None


def test_one_node_that_makes_progress_begins_it_again():
    present = [idle("a"), idle("b")]
    all_idle, seats = AllIdle(), seats_of(*present)
    all_idle.lasts(seats, present, (), 0.0)

    assert not all_idle.lasts(seats, [present[0], idle("b", idle=0.0)], (), 11.0)
    assert all_idle.deadline is None
    assert not all_idle.lasts(seats, present, (), 12.0)
    assert all_idle.deadline == 12.0 + TOGETHER * 60.0


def test_the_shortest_timeout_counts():
    present = [idle("a", timeout=60.0), idle("b", timeout=20.0)]

    assert shortest_timeout(seats_of(*present), present, ()) == 20.0


def test_nodes_that_only_serve_or_are_done_are_not_waited_for():
    present = [idle("a"), idle("b", idle=0.0, state=SERVING), idle("c", idle=0.0, state=DONE)]
    seats = seats_of(*present)

    assert shortest_timeout(seats, present, {"c"}) == 60.0
    assert shortest_timeout(seats, present[1:], {"c"}) is None, "the record of one with work is not there"


def test_a_job_whose_nodes_all_serve_is_not_idle():
    present = [idle("a", state=SERVING)]

    assert shortest_timeout(seats_of(*present), present, ()) is None
