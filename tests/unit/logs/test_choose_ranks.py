"""Which ranks are shown, and what is wrong with those that the job does not have."""

from __future__ import annotations

import pytest

from flota.errors import FlotaError
from flota.logs.choose_ranks import MOST_IN_RANGE, Choice, parse_ranks
from flota.logs.merge_lines import Speaker

JOB = [Speaker("trainer", rank, f"gpu0{rank // 2}", rank // 2) for rank in range(4)] + [
    Speaker("server", 0, "gpu01", 1)
]


def chosen(choice, job=JOB):
    choice = choice.completed(job)
    choice.check(job)
    return [(one.role[0], one.rank) for one in job if choice.has(one)]


def test_ranges_of_ranks():
    assert parse_ranks("3,5-7") == (3, 5, 6, 7)
    assert parse_ranks("4-4") == (4,)
    assert len(parse_ranks(f"0-{MOST_IN_RANGE}")) == MOST_IN_RANGE + 1


@pytest.mark.parametrize("word", ["", "x", "7-5", "-1", "1-", "1,,2", f"0-{MOST_IN_RANGE + 1}", "1-2-3", "²"])
def test_what_is_not_a_list_of_ranks(word):
    with pytest.raises(ValueError, match=r"^[^,]*$"):  # the part that is wrong
        parse_ranks(word)


@pytest.mark.parametrize(
    ("choice", "ranks"),
    [
        (Choice(), [("t", 0)]),
        (Choice((1, 3)), [("t", 1), ("t", 3)]),
        (Choice(all=True), [("t", 0), ("t", 1), ("t", 2), ("t", 3), ("s", 0)]),
        (Choice((0,), all=True), [("t", 0), ("s", 0)]),
        (Choice(role="server"), [("s", 0)]),
        (Choice(node="1"), [("t", 2), ("t", 3), ("s", 0)]),
        (Choice(node="gpu00"), [("t", 0), ("t", 1)]),
        (Choice((2,), node="gpu01"), [("t", 2)]),
    ],
)
def test_what_is_chosen(choice, ranks):
    assert chosen(choice) == ranks


def test_without_rank_0_its_first_rank_is_shown():
    assert chosen(Choice(), JOB[2:]) == [("t", 2)]


def test_a_job_without_trainers_shows_the_first_rank_of_its_first_role():
    assert chosen(Choice(), JOB[4:]) == [("s", 0)]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (Choice((9,)), "the job has no rank 9; it has ranks 0-3"),
        (Choice((1,), "server"), "the job has no server 1; it has server 0"),
        (Choice((0,), node="1"), "the job has no rank 0 on node 1; it has ranks 2-3"),
        (Choice(role="evil\x1b"), "the job has no role `evil?`; its roles: trainer, server"),
        (Choice(node="gpu07"), "the job has no node `gpu07`; its nodes: 0 (gpu00), 1 (gpu01)"),
        (Choice(role="server", node="0"), "the job has no server on node 0; it has none"),
    ],
)
def test_what_a_job_does_not_have(choice, words):
    with pytest.raises(FlotaError) as error:
        chosen(choice)

    assert error.value.message == words


def test_other_nodes_are_needed_unless_all_ranks_are_found():
    assert Choice((0, 1), "trainer").is_complete(JOB[:2])
    assert not Choice((0, 2), "trainer").is_complete(JOB[:2])
    assert not Choice(all=True).is_complete(JOB)
    assert not Choice((0,), "trainer", "gpu00").is_complete(JOB)
