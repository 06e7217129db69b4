"""What a failed worker said last."""

from __future__ import annotations

from flota.logs.tail import last_lines, last_traceback, read_tail, shorten

TRACE = [
    "Traceback (most recent call last):",
    '  File "train.py", line 3, in <module>',
    "    step()",
    "ValueError: boom",
]


def test_the_last_traceback_wins():
    lines = ["x", *TRACE[:-1], "KeyError: old", "handled", *TRACE, "bye"]

    assert last_traceback(lines) == TRACE


def test_a_chained_traceback_ends_with_what_was_raised_last():
    first = [
        *TRACE[:-1],
        "KeyError: 'a'",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
    ]

    assert last_traceback([*first, *TRACE]) == TRACE


def test_a_prefix_that_a_framework_puts_before_each_line_is_dropped():
    assert last_traceback(["ok", *(f"[rank1]: {line}" for line in TRACE)]) == TRACE


def test_no_traceback():
    assert last_traceback(["one", "two"]) == []


def test_long_tracebacks_keep_their_first_and_last_lines():
    long = [TRACE[0], *(f"  line {number}" for number in range(50)), TRACE[-1]]

    short = shorten(long, 11)

    assert len(short) == 11
    assert (short[0], short[1], short[-1]) == (TRACE[0], "  …", TRACE[-1])


def test_wide_lines_are_cut():
    assert len(shorten(["x" * 1000], 5)[0]) == 200


def test_last_lines_skip_empty_ones():
    assert last_lines(["a", "", "b", ""], 2) == ["a", "b"]


def test_reading_starts_where_the_round_does(tmp_path):
    log = tmp_path / "log"
    log.write_text("old\nnew 1\nnew 2\n")

    assert read_tail(str(log), 4) == ["new 1", "new 2", ""]


def test_reading_a_large_log_begins_at_a_whole_line(tmp_path):
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(100000)))

    lines = read_tail(str(log), 0)

    assert lines[-2] == "line 99999"
    assert lines[0].startswith("line ")


def test_a_missing_log_is_empty(tmp_path):
    assert read_tail(str(tmp_path / "none"), 0) == []
