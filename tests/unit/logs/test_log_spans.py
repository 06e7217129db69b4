"""Spans of logs, from what was noted while they grew."""

from __future__ import annotations

from flota.logs.log_parts import LogPart
from flota.logs.log_spans import (
    BEGINNING,
    LogHistory,
    Mark,
    Span,
    align,
    clock_difference,
    job_histories,
    joined,
    last_job,
    spans_of,
)

ONE = (LogPart(7, 100),)
LAST = 99.0


def known(time, begin, end):
    return Span(time, is_known=True, inode=7, begin=begin, end=end)


def unknown(time, begin, end):
    return Span(time, is_known=False, inode=7, begin=begin, end=end)


def test_marks_divide_a_log():
    marks = Mark(7, 40, 11.0), Mark(7, 90, 12.0)

    spans = spans_of(ONE, (7, 10), marks, LAST)

    assert spans == [known(11.0, 10, 40), known(12.0, 40, 90), known(LAST, 90, 100)]


def test_marks_before_the_start_and_behind_the_end_are_ignored():
    marks = Mark(7, 5, 1.0), Mark(7, 1000, 12.0)

    assert spans_of(ONE, (7, 10), marks, LAST) == [known(12.0, 10, 100)]


def test_time_never_goes_back_within_a_log():
    marks = Mark(7, 40, 12.0), Mark(7, 90, 11.0)

    assert [span.time for span in spans_of(ONE, BEGINNING, marks, 3.0)] == [12.0, 12.0, 12.0]


def test_the_end_of_a_rotated_file_has_the_time_of_the_next_mark():
    parts = LogPart(7, 100), LogPart(8, 50)
    marks = Mark(7, 60, 11.0), Mark(8, 20, 12.0), Mark(8, 50, 13.0)

    spans = spans_of(parts, (7, 0), marks, LAST)

    assert [(span.time, span.inode, span.begin, span.end) for span in spans] == [
        (11.0, 7, 0, 60),
        (12.0, 7, 60, 100),
        (12.0, 8, 0, 20),
        (13.0, 8, 20, 50),
    ]


def test_a_start_that_was_rotated_away_is_the_beginning_of_the_oldest_file():
    assert spans_of(ONE, (3, 50), (), LAST) == [unknown(LAST, 0, 100)]


def test_without_marks_rounds_divide_a_log_and_nothing_is_known_exactly():
    rounds = Mark(7, 10, 5.0), Mark(7, 60, 8.0)

    spans = spans_of(ONE, (7, 10), rounds, LAST, marks_begin=True)

    assert spans == [unknown(5.0, 10, 60), unknown(8.0, 60, 100)]


def test_a_log_without_files_has_no_spans():
    assert spans_of((), BEGINNING, (Mark(7, 1, 1.0),), LAST) == []


NOTED = b"""\
{"at": 10.0, "pid": 1, "round": 0, "starts": {"old": [1, 0], "a": [7, 0]}}
{"sizes": {"a": [7, 50, 11.0]}}
{"at": 20.0, "pid": 2, "round": 0, "starts": {"a": [7, 50]}}
{"sizes": {"a": [7, 60, 21.0]}}
not json
{"sizes": {"a": ["x"]}}
[]
\xff
{"sizes": {"a": [7, 70, 22.0], "b": [9, 1, 22.0]}}
{"sizes": {"a": [7, 8"""


def test_only_the_last_job_is_read_and_lines_of_others_are_skipped():
    """The job's first round is noted a moment before its first event."""
    found = job_histories(NOTED, 20.1, 2, 5.0, 0.0)

    assert found == {"a": LogHistory((Mark(7, 50, 20.0),), (Mark(7, 60, 21.0), Mark(7, 70, 22.0)))}


def test_the_last_round_of_another_process_just_before_is_not_of_this_job():
    assert job_histories(NOTED, 20.1, 3, 5.0, 0.0) == {}


def test_times_are_corrected():
    found = job_histories(NOTED, 20.0, 2, 5.0, 3.0)

    assert found["a"].marks[0].time == 18.0


def test_what_several_nodes_noted_about_one_log_is_in_order():
    one = {"a": LogHistory((Mark(7, 0, 1.0),), (Mark(7, 10, 2.0),))}
    other = {"a": LogHistory((Mark(7, 10, 3.0),), (Mark(7, 20, 4.0),)), "b": LogHistory()}

    found = joined([other, one])

    assert [mark.time for marks in found["a"] for mark in marks] == [1.0, 3.0, 2.0, 4.0]
    assert found["b"] == LogHistory()


def test_in_a_copy_the_newest_file_is_the_one_noted_last():
    history = LogHistory((Mark(7, 0, 1.0),), (Mark(7, 100, 2.0), Mark(8, 40, 3.0)))

    found = align(history, (LogPart(27, 100), LogPart(28, 50)))

    assert [mark.inode for marks in found for mark in marks] == [27, 27, 28]
    assert align(history, (LogPart(7, 100), LogPart(8, 50))) == history


def test_a_copy_may_have_fewer_files_than_were_noted():
    history = LogHistory((Mark(7, 0, 1.0),), (Mark(7, 100, 2.0), Mark(8, 40, 3.0)))

    assert [mark.inode for marks in align(history, (LogPart(28, 50),)) for mark in marks] == [0, 0, 28]


def test_the_last_job_begins_where_the_numbers_of_rounds_begin_again():
    rounds = [(7, offset, number) for offset, number in enumerate((0, 1, 0, 2, 3))]

    assert last_job(rounds) == rounds[2:]
    assert last_job(rounds[:2]) == rounds[:2]
    assert last_job([]) == []


def test_clocks_are_compared_by_the_rounds_that_both_nodes_started():
    assert clock_difference({0: 105.0, 1: 205.25, 2: 306.0}, {0: 100.0, 1: 200.0, 2: 300.5, 3: 0.0}) == 5.25


def test_differences_of_less_than_a_second_say_nothing_about_clocks():
    assert clock_difference({0: 100.9}, {0: 100.0}) == 0.0
    assert clock_difference({0: 100.0}, {1: 500.0}) == 0.0
