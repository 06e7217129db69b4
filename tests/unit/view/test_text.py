"""The lines of a view fit their width, whatever the job is."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flota.control.status import NodePlace
from flota.view.model import JobModel
from flota.view.text import (
    AsciiGlyphs,
    Glyphs,
    Layout,
    bar,
    job_line,
    number_in_words,
    progress_line,
    restart_lines,
    rounds_line,
    seconds_in_words,
    sparkline,
    width_of,
)

from .answers import answer


def model(ranks=64):
    made = JobModel()
    made.update(answer(ranks, 60), 100.0)
    made.update(answer(ranks, 61), 101.0)
    return made


def text(line):
    return "".join(piece for piece, _ in line)


@pytest.mark.parametrize("glyphs", [Glyphs(), AsciiGlyphs()])
@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_every_line_has_exactly_the_width(width, glyphs):
    job = model()
    layout = Layout(job.rows, width, glyphs)

    lines = [
        job_line(job, width, glyphs),
        progress_line(job, width, glyphs),
        rounds_line(job.job, width, glyphs),
        *(layout.row(row, width, glyphs, chosen=False) for row in job.rows),
    ]

    assert {width_of(line) for line in lines} == {width}


def test_without_unicode_all_characters_are_ascii():
    job, glyphs = model(), AsciiGlyphs()
    layout = Layout(job.rows, 120, glyphs)

    lines = [job_line(job, 120, glyphs), progress_line(job, 120, glyphs), rounds_line(job.job, 120, glyphs)]
    lines += [layout.row(row, 120, glyphs, chosen=True) for row in job.rows]

    assert all(text(line).isascii() for line in lines)


def test_the_least_important_columns_are_left_out_first():
    def titles(width):
        return text(Layout(model().rows, width, Glyphs()).head("")).split()

    assert titles(120)[-2:] == ["MEMORY", "DEVICE"]
    assert "DEVICE" not in titles(80) and "MEMORY" in titles(80)
    assert titles(40) == ["RANK", "STATE", "STEP", "STEP", "TIME", "CPU%"]


def test_the_use_of_devices_is_shown_where_it_is_known():
    rows = [replace(row, device_use=87.4) for row in model().rows]

    layout = Layout(rows, 120, Glyphs())

    assert text(layout.head("")).split()[-1] == "USE%"
    assert text(layout.row(rows[0], 120, Glyphs(), chosen=False)).split()[-1] == "87"


def test_control_characters_of_a_host_or_a_cause_do_not_reach_the_terminal():
    hostile = "\x1b]0;x\x07"
    made = JobModel()
    made.update(answer(2, job_id=hostile, directory="", log_dir=hostile), 100.0)

    lines = [job_line(made, 200, Glyphs()), rounds_line(made.job, 200, Glyphs())]

    assert all(text(line).isprintable() for line in lines)
    assert all(line.isprintable() for line in restart_lines(made.job))


def test_numbers_are_short():
    assert [seconds_in_words(value) for value in (0.0, 0.00421, 0.321, 1.5, 125.0)] == [
        *("", "4.21 ms", "321 ms"),
        *("1.50 s", "2m05s"),
    ]
    assert [number_in_words(value) for value in (12.0, 0.123456, 1e12, float("nan"))] == [
        *("12", "0.1235"),
        *("1e+12", "nan"),
    ]
    assert bar(0.5, 8, Glyphs()) == "━━━━" and bar(9.0, 4, Glyphs()) == "━━━━"
    assert sparkline([1.0, 2.0, float("nan"), 3.0], 3, AsciiGlyphs()) == "_+@"


def test_spares_are_counted():
    made = model(2)
    made.job = replace(made.job, spares=(NodePlace(-1, "host3"),))

    assert " and 1 spare" in text(job_line(made, 200, Glyphs()))
