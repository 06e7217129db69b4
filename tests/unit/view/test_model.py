"""Rows of ranks and facts about a job, from its answers."""

from __future__ import annotations

from math import isnan

from msgspec.json import encode
from msgspec.structs import replace

from flota.control.client import JobAnswer
from flota.control.status import FAILED, RUNNING, RestartStatus
from flota.store.decoding import decode_json
from flota.view.model import BY_RANK, BY_STEP_TIME, HISTORY, NO_ANSWER, SILENT, JobModel, allot, matches, rounds_of

from .answers import BEGAN, SLOW, answer


def model_of(*answers: JobAnswer) -> JobModel:
    model = JobModel()
    for second, one in enumerate(answers):
        model.update(one, 100.0 + second)
    return model


def with_rank(one: JobAnswer, number: int, **facts: object) -> JobAnswer:
    """The same answer, with another state of one rank."""
    nodes = (replace(node, ranks=tuple(_changed(rank, number, facts) for rank in node.ranks)) for node in one.nodes)
    return replace(one, nodes=tuple(nodes))


def _changed(rank, number, facts):
    return replace(rank, **facts) if rank.rank == number else rank


def test_cpu_is_the_difference_of_two_answers():
    first, second = answer(2, 60), answer(2, 61)

    assert [row.cpu for row in model_of(first).rows] == [None, None]
    assert [row.cpu for row in model_of(first, second).rows] == [50.0, 50.0]


def test_a_new_worker_of_the_same_rank_has_no_cpu_yet():
    restarted = with_rank(answer(2, 61), 1, pid=7, cpu=0.1, step=3)

    rows = model_of(answer(2, 60), restarted).rows

    assert [row.cpu for row in rows] == [50.0, None]
    assert rows[1].rate == 1 / rows[1].step_seconds


def test_the_rate_is_measured_between_answers_and_starts_again_after_a_step_back():
    model = model_of(answer(2, 60), answer(2, 61), answer(2, 62))
    assert [row.rate for row in model.rows] == [2.0, 2.0]

    model.update(with_rank(answer(2, 63), 0, step=5), 103.0)
    model.update(with_rank(answer(2, 64), 0, step=6), 104.0)

    assert [row.rate for row in model.rows] == [1.0, 2.0]


def test_progress_is_that_of_the_rank_which_is_behind():
    behind = model_of(answer(4, 60), with_rank(answer(4, 61), 2, step=100)).progress

    assert (behind.step, behind.total) == (100, 5000)
    assert behind.left == (5000 - 100) / behind.rate
    assert dict(behind.numbers).keys() == {"loss"}


def test_the_step_time_is_compared_with_the_median():
    row = model_of(answer(8)).rows[SLOW]

    assert row.ratio == 1.0 / 0.525  # the median of the eight
    assert row.slow == 2.0


def test_a_rank_without_heartbeats_for_long_is_silent():
    silent = with_rank(answer(2), 1, heartbeat=31.0)
    slow_steps = with_rank(answer(2), 1, heartbeat=31.0, step_seconds=20.0)

    assert [row.state for row in model_of(silent).rows] == [RUNNING, SILENT]
    assert [row.state for row in model_of(slow_steps).rows] == [RUNNING, RUNNING]


def test_ranks_of_a_node_that_does_not_answer_stay_with_their_last_step():
    model = model_of(answer(16, 60), answer(16, 61, missing=(("gpu02", "no answer"),)))

    assert model.counts == {NO_ANSWER: 8, RUNNING: 8}
    assert {row.step for row in model.rows if row.host == "gpu02"} == {120}

    model.update(answer(16, 62), 102.0)
    assert model.counts == {RUNNING: 16}


def test_what_is_remembered_is_bounded():
    many = {f"number {index}": 1.0 for index in range(100)}

    model = model_of(*(with_rank(answer(2, second), 0, numbers=many) for second in range(HISTORY + 5)))

    assert len(model.history) == 9
    assert {len(values) for values in model.history.values()} == {HISTORY}


def test_a_search_is_about_ranks_hosts_states_and_roles():
    model = model_of(with_rank(answer(16), 3, state=FAILED))

    assert [row.rank for row in model.shown("3-5", BY_RANK)] == [3, 4, 5]
    assert [row.rank for row in model.shown("gpu02 9", BY_RANK)] == [9]
    assert [row.rank for row in model.shown("fail", BY_RANK)] == [3]
    assert [row.rank for row in model.shown("slow", BY_RANK)] == [SLOW]
    assert model.shown("GPU01 slow 7", BY_RANK) == []
    assert all(matches(row, "trainer") for row in model.rows)


def test_the_slowest_rank_comes_first_in_that_order():
    assert model_of(answer(64)).shown("", BY_STEP_TIME)[0].rank == SLOW


def test_the_timeline_has_a_span_for_each_round():
    restarts = (
        RestartStatus(0, BEGAN + 25, "rank 1 ValueError"),
        RestartStatus(1, BEGAN + 75, "gpu03 was lost", counted=False),
    )
    job = replace(answer(2, 100).job, round=2, restarts=restarts)

    assert [(span.round, span.share, span.end) for span in rounds_of(job)] == [
        (0, 0.25, restarts[0]),
        (1, 0.5, restarts[1]),
        (2, 0.25, None),
    ]


def test_every_round_has_a_column_while_there_are_enough():
    assert allot([0.25, 0.5, 0.25], 20) == [5, 10, 5]
    assert allot([0.999, 0.001], 10) == [9, 1]
    assert sum(allot([0.01] * 50, 20)) == 20


def test_a_loss_that_is_not_a_number_is_shown_as_such():
    received = decode_json(encode(with_rank(answer(2), 0, numbers={"loss": float("nan")})), JobAnswer)

    assert isnan(dict(model_of(received).progress.numbers)["loss"])
