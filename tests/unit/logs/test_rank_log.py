"""Logs of several ranks, merged and shown. Their files are bytes in memory."""

from __future__ import annotations

import io
import re

from flota.logs.log_parts import LogPart
from flota.logs.log_spans import BEGINNING, Mark, spans_of
from flota.logs.merge_lines import Speaker
from flota.logs.rank_log import LinePrinter, RankLog, show_spans


def log_of(rank, files, marks=(), start=BEGINNING):
    """`files`: by inode; `marks`: offsets and times in the last of them."""
    files = dict(files) if isinstance(files, dict) else {rank + 1: files}
    parts = tuple(LogPart(inode, len(text)) for inode, text in files.items())
    log = RankLog(Speaker("trainer", rank, "h"), "", lambda inode, at, most: files[inode][at : at + most], parts, start)
    noted = tuple(Mark(parts[-1].inode, offset, time) for offset, time in marks)
    log.spans = spans_of(parts, start, noted, 1000.0)
    log.files = files
    return log


def shown(logs, since=0.0, **options):
    out = io.BytesIO()
    printer = LinePrinter(out, several=len(logs) > 1, **options)
    show_spans(logs, printer, since)
    printer.show([(log, b"") for log in logs], last=True)
    return out.getvalue().decode()


def test_logs_are_merged_by_time():
    first = log_of(0, b"a\nb\n", [(2, 10.0), (4, 30.0)])
    second = log_of(1, b"x\ny\n", [(2, 20.0), (4, 40.0)])

    assert shown([first, second]) == "[h:0] a\n[h:1] x\n[h:0] b\n[h:1] y\n"


def test_a_mark_within_a_line_does_not_cut_it():
    first = log_of(0, b"one\ntwo\n", [(5, 10.0), (8, 30.0)])
    second = log_of(1, b"x\n", [(2, 20.0)])

    assert shown([first, second]) == "[h:0] one\n[h:1] x\n[h:0] two\n"


def test_a_single_log_is_shown_byte_for_byte():
    assert shown([log_of(0, b"\r10%\r20%\n\x1b[1mx", [(4, 1.0)])]) == "\r10%\r20%\n\x1b[1mx"


def test_an_unfinished_last_line_is_ended_if_there_are_several():
    assert shown([log_of(0, b"a"), log_of(1, b"b")]) == "[h:0] a\n[h:1] b\n"


def test_since_leaves_out_what_is_known_to_be_older():
    known = log_of(0, b"a\nb\n", [(2, 10.0), (4, 30.0)])
    unknown = log_of(1, b"x\n")

    assert shown([known, unknown], since=20.0) == "[h:0] b\n[h:1] x\n"


def test_lines_of_the_same_second_are_folded():
    first = log_of(0, b"a\nb\n", [(2, 9.9), (4, 30.0)])
    second = log_of(1, b"a\nb\n", [(2, 10.1), (4, 32.0)])

    assert shown([first, second], folds=True) == "[ranks 0-1 x2] a\n[h:0] b\n[h:1] b\n"


def test_a_pattern_selects_lines_also_of_a_single_log():
    assert shown([log_of(0, b"a\nb\nab")], pattern=re.compile(b"b")) == "b\nab\n"


def test_json_is_never_folded():
    assert shown([log_of(0, b"a\n"), log_of(1, b"a\n")], folds=True, json=True).count('"line": "a"') == 2


def test_a_progress_bar_becomes_its_last_state_if_there_are_several():
    assert shown([log_of(0, b"\r10%\r20%\nend\n"), log_of(1, b"")]) == "[h:0] 20%\n[h:0] end\n"


def test_what_is_added_after_the_merge_follows_without_a_gap():
    log = log_of(0, b"a\nb", [(2, 10.0)])
    shown([log])
    log.files[1] = b"a\nbc\n"
    log.parts = (LogPart(1, 5),)

    assert log.advance(100) == (b"c\n", False)
    assert log.advance(100) == (b"", False)


def test_a_rotated_file_is_read_to_its_end_before_the_new_one():
    log = log_of(0, b"abc", start=(1, 1))
    log.files |= {1: b"abcd", 2: b"ef"}
    log.parts = LogPart(1, 4), LogPart(2, 2)

    assert [log.advance(2)[0] for _ in range(4)] == [b"bc", b"d", b"ef", b""]


def test_files_that_were_rotated_away_are_reported_once():
    log = log_of(0, b"abc", start=(1, 3))
    log.files[5] = b"x"
    log.parts = (LogPart(5, 1),)

    assert log.advance(9) == (b"x", True)
    assert log.advance(9) == (b"", False)


def test_a_truncated_file_is_read_from_its_beginning():
    log = log_of(0, b"abc", start=(1, 3))
    log.files[1] = b"x"
    log.parts = (LogPart(1, 1),)

    assert log.advance(9) == (b"x", False)


def test_a_log_without_files_waits_for_one():
    log = log_of(0, {})

    assert log.advance(9) == (b"", False)
