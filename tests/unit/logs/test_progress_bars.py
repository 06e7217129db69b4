"""Bars of one rank as states of its line; bars of several ranks as rows of a terminal, or as lines."""

from __future__ import annotations

import pytest

from flota.logs.progress_bars import LONGEST_BAR, ProgressBars, last_state, split_bars
from tests.terminal import Terminal

UP = b"\x1b[A"


@pytest.mark.parametrize(
    ("written", "lines", "state"),
    [
        (b"\r 10%", b"", b" 10%"),
        (b"\r 10%\r 20%", b"", b" 20%"),
        (b" 10%\r 20%\r", b"", b" 20%"),
        (b"\r 10%\r 100%\n", b" 100%\n", b""),
        (b"one\r\ntwo\r\n", b"one\ntwo\n", b""),
        (b"plain  \n\r 10%", b"plain  \n", b" 10%"),
        (b"\r 10%\r    \rtext\n", b"text\n", b""),
        (b"\r 10%\r    \r", b"", b""),
        (b"\r\n", b"\n", b""),
        (b"step 1\b\b\b\b\b\b\rstep 2\b\b\b\b\b\b\r", b"", b"step 2"),
        (b"\r\x1b[2K 10%\x1b[K", b"", b" 10%"),
        (b"\r\x1b[32m 10%\x1b[0m\x1b[", b"", b"\x1b[32m 10%\x1b[0m"),
        (b"\r\x1b7 10%\x1b8", b"", b" 10%"),
        (b"\router\n\rinner 1" + UP, b"outer\n", b"inner 1"),
        (b"\router\n\rinner 1" + UP + b"\n\rinner 2" + UP, b"outer\n", b"inner 2"),
        (b"\rinner 1" + UP + b"\router\n\rinner 2" + UP, b"outer\n", b"inner 2"),
        (b"\n\n\rthird 1" + UP + UP + b"\n\n\rthird 2" + UP + UP, b"\n\n", b"third 2"),
        (b"\n\rinner" + UP + b"\n\r      " + UP + b"\r     \rdone\n\router", b"\ndone\n", b"outer"),
    ],
)
def test_a_line_is_the_last_state_of_its_bar(written, lines, state):
    body, rest = split_bars(written)

    assert (body, last_state(rest)) == (lines, state)


def test_a_bar_that_never_ends_keeps_its_last_states_only():
    rest = b""
    for step in range(1000):
        body, rest = split_bars(rest + b"\rstep %d" % step + UP + b"\r" * 10)
        assert not body

    assert len(rest) < 20


class Shown:
    """Bars and lines on a terminal of this size."""

    def __init__(self, height=24, width=80):
        self.bars = ProgressBars(terminal=True)
        self.terminal = Terminal(height, width)

    def update(self, number, line):
        self.bars.update(number, b"[h:%d] " % number, line, 0.0)

    def draw(self):
        self.terminal.feed(b"".join(self.bars.draw(self.terminal.height)))

    def print(self, lines):
        self.terminal.feed(b"".join(self.bars.show_lines(self.terminal.height, (lines,))))


@pytest.fixture
def shown():
    return Shown()


def test_each_rank_has_a_row_in_the_order_of_ranks(shown):
    shown.update(1, b"\r 10%")
    shown.update(0, b"\r 20%")
    shown.draw()
    shown.update(1, b"\r 30%")
    shown.draw()

    assert shown.terminal.screen == ["[h:0]  20%", "[h:1]  30%"]


def test_lines_come_above_the_bars(shown):
    shown.update(0, b"\r 20%")
    shown.update(1, b"\r 10%")
    shown.draw()
    shown.print(b"[h:2] text\n[h:2] more\n")

    assert shown.terminal.screen == ["[h:2] text", "[h:2] more", "[h:0]  20%", "[h:1]  10%"]


def test_a_bar_that_ends_leaves_the_rows_and_becomes_a_line(shown):
    shown.update(0, b"\r 20%")
    shown.update(1, b"\r 10%")
    shown.draw()
    shown.update(1, b"")
    shown.print(b"[h:1] 100%\n")
    shown.update(0, b"")
    shown.print(b"[h:0] 100%\n")

    assert shown.terminal.screen == ["[h:1] 100%", "[h:0] 100%", ""]


def test_a_blank_bar_has_no_row(shown):
    shown.update(0, b"\r 20%")
    shown.draw()
    shown.update(0, b"\r    \r")
    shown.draw()

    assert shown.terminal.screen == [""]


def test_erased_bars_leave_an_empty_line_and_come_back_below(shown):
    shown.update(0, b"\r 20%")
    shown.update(1, b"\r 10%")
    shown.draw()
    shown.terminal.feed(shown.bars.erase(5.0))
    assert shown.terminal.screen == [""]
    assert 5.0 < shown.bars.deadline < 6.0

    shown.terminal.feed(b"flota: a line\n")
    shown.draw()

    assert shown.terminal.screen == ["flota: a line", "[h:0]  20%", "[h:1]  10%"]


def test_a_long_bar_is_cut_at_the_edge_of_the_terminal():
    shown = Shown(width=20)
    shown.update(0, b"\r" + b"=" * 40)
    shown.draw()
    shown.draw()

    assert shown.terminal.screen == ["[h:0] " + "=" * 14]


def test_a_bar_without_end_is_cut(shown):
    shown.update(0, b"\r" + b"=" * 100_000)

    assert len(b"".join(shown.bars.draw(24))) < LONGEST_BAR + 50


def test_more_bars_than_rows_are_counted():
    shown = Shown(height=4)
    for number in range(10):
        shown.update(number, b"\r 10%")
    shown.draw()
    shown.print(b"text\n")

    assert shown.terminal.screen == ["text", "[h:0]  10%", "[h:1]  10%", "... 8 more progress bars"]
    assert shown.terminal.scrolled_off == []


def test_without_a_terminal_changed_bars_become_lines():
    bars = ProgressBars(terminal=False)
    bars.update(0, b"[h:0] ", b"\r 10%", 0.0)
    bars.update(1, b"[h:1] ", b"\r 20%", 0.0)
    bars.update(0, b"[h:0] ", b"\r 30%", 0.5)
    assert bars.deadline == 1.0
    assert b"".join(bars.draw(24)) == b"[h:0]  30%\n[h:1]  20%\n"
    assert bars.deadline is None

    bars.update(0, b"[h:0] ", b"\r 30%", 2.0)
    assert bars.deadline is None
    bars.update(1, b"[h:1] ", b"\r 40%", 2.0)

    assert b"".join(bars.draw(24)) == b"[h:1]  40%\n"


def test_without_a_terminal_a_bar_that_ends_is_not_shown_twice():
    bars = ProgressBars(terminal=False)
    bars.update(0, b"", b"\r 10%", 0.0)
    bars.update(0, b"", b"", 0.1)

    assert b"".join(bars.show_lines(24, (b"100%\n",))) == b"100%\n"
    assert b"".join(bars.draw(24)) == b""
    assert bars.erase(0.2) == b""
