"""The line below the output: on the screen there is one of it, at the end, or none."""

from __future__ import annotations

import os

import pytest

from flota.logs.follow import LogFollower
from flota.logs.nonblocking_writer import NonblockingWriter
from flota.logs.status_line import INTERVAL, StatusLine
from tests.terminal import Terminal

LONG = "step 1,240/5,000  3.1 it/s  loss 0.213  ETA 00:41:10"


@pytest.fixture
def stage():
    made = Stage()
    yield made
    os.close(made.ours)
    os.close(made.theirs)


class Stage:
    """A status line on a pipe, and a terminal that shows what comes out of it. The width is the usual one: 80."""

    def __init__(self):
        self.ours, self.theirs = os.pipe()
        self.writer = NonblockingWriter(self.theirs)
        self.follower = LogFollower(self.writer, timestamps=False, terminal=True)
        self.status = StatusLine(self.follower)
        self.terminal = Terminal()
        self.now = 100.0

    def refresh(self, seconds=INTERVAL):
        self.now += seconds
        self.status.refresh(self.now)

    @property
    def screen(self):
        self.writer.write(b"")
        os.set_blocking(self.ours, False)
        try:
            self.terminal.feed(os.read(self.ours, 65536))
        except BlockingIOError:
            pass
        return self.terminal.screen


def test_it_is_below_the_lines(stage):
    stage.status.text = "step 1"
    stage.refresh()
    assert stage.screen == [" step 1"]
    stage.writer.write(b"one\n")
    assert stage.screen == ["one", ""]
    stage.writer.write(b"two\n")
    stage.refresh()

    assert stage.screen == ["one", "two", " step 1"]


def test_a_shorter_text_replaces_all_of_a_longer_one(stage):
    for text in ("step 1,000  1 restart", "step 1"):
        stage.status.text = text
        stage.refresh()

    assert stage.screen == [" step 1"]


def test_it_is_drawn_again_after_output_at_most_once_per_interval(stage):
    stage.status.text = "step 1"
    stage.refresh()
    stage.writer.write(b"one\n")
    stage.refresh(INTERVAL / 4)

    assert stage.screen == ["one", ""]
    assert stage.status.until(None, stage.now) == pytest.approx(INTERVAL * 3 / 4)
    assert stage.status.until(0.01, stage.now) == 0.01


def test_what_is_on_the_screen_is_not_written_again(stage):
    stage.status.text = "step 1"
    stage.refresh()
    stage.screen  # noqa: B018  reads the pipe
    stage.refresh(60.0)

    with pytest.raises(BlockingIOError):
        os.read(stage.ours, 1)
    assert stage.status.until(None, stage.now) is None


def test_an_unfinished_line_of_a_worker_hides_it(stage):
    stage.status.text = "step 1"
    stage.refresh()
    stage.writer.write(b"\r 50%")
    stage.refresh()
    assert stage.screen == [" 50%"]
    stage.writer.write(b"\r100%\n")
    stage.refresh()

    assert stage.screen == ["100%", " step 1"]


def test_without_a_text_there_is_no_line(stage):
    stage.status.text = "step 1"
    stage.refresh()
    stage.status.text = ""
    stage.refresh(0.0)

    assert stage.screen == [""]


def test_it_does_not_wrap_in_a_narrow_terminal(stage):
    stage.status.text = "x" * 200
    stage.refresh()

    assert stage.screen == [f" {'x' * 78}"]


def test_a_line_that_the_terminal_has_wrapped_is_erased_as_a_whole(stage):
    """A terminal that has become narrower wraps the line, and the cursor stays where the line begins."""
    stage.writer.write(b"above\n")
    stage.status.text = LONG
    stage.refresh()
    stage.terminal = narrower = Terminal(24, 30)
    os.read(stage.ours, 65536)
    narrower.feed(f"above\n{LONG}\x1b[1A\r".encode())
    assert narrower.screen == ["above", LONG[:30], LONG[30:]]

    stage.status.text = "step 1,241"
    stage.refresh()

    assert stage.screen == ["above", " step 1,241"]


def test_it_waits_for_a_terminal_that_does_not_take_more(stage):
    stage.writer.write(b"x" * (2 << 20) + b"\n")
    assert stage.writer.pending

    stage.status.text = "step 1"
    stage.refresh()

    assert b"step" not in b"".join(bytes(part) for part in stage.writer._rest)
    assert stage.status.until(None, stage.now) is None
