"""Lines of several ranks: folded, chosen, labelled."""

from __future__ import annotations

import json
import re

import pytest

from flota.logs.merge_lines import Speaker, as_json, fold, folded_prefix, grep


def folded(*bodies):
    return [(who, body.decode()) for who, body in fold([body.encode() for body in bodies])]


def test_a_line_of_all_is_shown_once():
    assert folded("a\n", "a\n", "a\n") == [((0, 1, 2), "a\n")]


def test_a_line_that_one_rank_repeats_is_repeated():
    assert folded("a\na\na\n", "a\n") == [((0, 1), "a\n"), ((0,), "a\na\n")]


def test_own_lines_stay_between_common_ones():
    assert folded("a\nmine 0\nb\n", "a\nmine 1\nb\n") == [
        ((0, 1), "a\n"),
        ((0,), "mine 0\n"),
        ((1,), "mine 1\n"),
        ((0, 1), "b\n"),
    ]


def test_own_lines_of_one_rank_stay_together():
    assert folded("x\nx1\nx2\n", "y\ny1\ny2\n") == [((0,), "x\nx1\nx2\n"), ((1,), "y\ny1\ny2\n")]


def test_ranks_that_print_in_different_orders_lose_no_line():
    assert sorted(folded("a\nb\nc\n", "c\na\nb\n")) == [((0, 1), "a\nb\nc\n")]


def test_each_line_is_counted_for_each_of_its_ranks():
    bodies = ["a\nb\na\n", "b\na\n", "c\nb\nb\na\n"]

    counts = {}
    for who, body in folded(*bodies):
        for number in who:
            counts.setdefault(number, []).extend(body.splitlines())

    assert {number: sorted(lines) for number, lines in counts.items()} == {
        number: sorted(body.splitlines()) for number, body in enumerate(bodies)
    }


def test_grep_matches_line_by_line():
    body = b"loss 1\nloss nan\n\nnan loss\n"

    assert grep(body, re.compile(rb"nan$")) == b"loss nan\n"
    assert grep(body, re.compile(rb"1\sloss")) == b""
    assert grep(body, re.compile(rb"^$")) == b"\n"


def test_prefixes_are_those_of_the_console():
    assert Speaker("trainer", 3, "gpu01").prefix(coloured=False) == b"[gpu01:3] "
    assert Speaker("server", 0, "gpu01").prefix(coloured=False) == b"[gpu01:server 0] "
    assert Speaker("trainer", 3, "gpu01").prefix(coloured=True) == b"\x1b[94m[gpu01:3]\x1b[0m "
    assert Speaker("trainer", 3).prefix(coloured=False) == b"[3] "


def test_a_host_name_cannot_send_control_characters_to_the_terminal():
    assert Speaker("trainer", 3, "g\x1b[31m\x07").prefix(coloured=False) == b"[g?:3] "


@pytest.mark.parametrize(
    ("who", "prefix"),
    [
        ([("trainer", rank) for rank in range(64)], b"[ranks 0-63 x64] "),
        ([("trainer", 0), ("server", 0), ("server", 1)], b"[rank 0; servers 0-1 x3] "),
    ],
)
def test_folded_lines_name_their_ranks(who, prefix):
    assert folded_prefix([Speaker(*one) for one in who]) == prefix


def test_json_has_one_object_per_line():
    lines = as_json(b"caf\xc3\xa9\n\xff\n", Speaker("trainer", 3, "gpu01", 1), 12.34567).splitlines()

    assert [json.loads(line) for line in lines] == [
        {"role": "trainer", "rank": 3, "host": "gpu01", "time": 12.346, "line": line} for line in ("café", "\ufffd")
    ]
    assert json.loads(as_json(b"a\n", Speaker("trainer", 0), None))["time"] is None
