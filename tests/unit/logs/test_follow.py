"""What a follower of log files writes, without a process: files that grow, and a writer to a file."""

from __future__ import annotations

import pytest

from flota.logs.follow import LONGEST_LINE, RANK_COLOURS, FollowedLog, LogFollower
from flota.logs.nonblocking_writer import NonblockingWriter


class Console:
    """A follower of logs that tests append to, and what it has written."""

    def __init__(self, directory, ranks, *, timestamps=False, terminal=False, **options):
        self.output = directory / "output"
        self.paths = [directory / f"workerlog.{rank}" for rank in range(ranks)]
        self.file = self.output.open("wb")
        self.follower = LogFollower(NonblockingWriter(self.file.fileno()), timestamps=timestamps, terminal=terminal)
        for rank, path in enumerate(self.paths):
            path.touch()
            prefix = b"[h:%d] " % rank if ranks > 1 else b""
            self.follower.follow(FollowedLog(str(path), prefix, **options))

    def write(self, rank, data):
        with self.paths[rank].open("ab") as log:
            log.write(data)
        self.show()

    def show(self):
        self.follower.mark_all_changed()
        while self.follower.busy:
            self.follower.pump()

    @property
    def shown(self):
        return self.output.read_bytes()


@pytest.fixture
def console(tmp_path):
    made = []

    def make(ranks, **options):
        made.append(Console(tmp_path, ranks, **options))
        return made[-1]

    yield make
    for one in made:
        one.file.close()


def test_one_log_is_shown_byte_for_byte(console):
    one = console(1)
    one.write(0, b"\r 10%\r\x1b[A 20%")
    one.write(0, b"\n text")
    one.follower.finish()

    assert one.shown == b"\r 10%\r\x1b[A 20%\n text"


def test_one_log_with_filters_is_shown_byte_for_byte(console, tmp_path):
    with (tmp_path / "copy").open("wb") as copy:
        one = console(1, words=[b"loss"], copy=copy.fileno())
        one.write(0, b"\r 10%\r 20% loss")
        one.write(0, b" 1\ntext\n")

    assert one.shown == b"\r 10%\r 20% loss 1\ntext\n"
    assert (tmp_path / "copy").read_bytes() == b" 20% loss 1\n"


def test_lines_of_several_logs_come_whole(console):
    two = console(2)
    two.write(0, b"one\ntw")
    two.write(1, b"other\n")
    two.write(0, b"o\nlast")
    two.follower.finish()

    assert two.shown == b"[h:0] one\n[h:1] other\n[h:0] two\n[h:0] last\n"


def test_bars_of_several_logs_do_not_lose_their_prefix(console):
    two = console(2)
    two.write(0, b"\r 10%")
    two.write(1, b"\r 20%")
    two.write(0, b"\r100%\n")
    two.follower.finish()

    assert two.shown == b"[h:0] 100%\n[h:1]  20%\n"


def test_an_erased_bar_is_not_a_last_line(console):
    two = console(2)
    two.write(0, b"\r 10%\r    \r")
    two.follower.finish()

    assert two.shown == b""


def test_a_line_without_end_is_shown_in_lines_of_bounded_length(console):
    two = console(2)
    for _ in range(40):
        two.write(0, b"x" * (LONGEST_LINE // 8))
        assert len(two.follower.logs[0].partial) <= LONGEST_LINE
    two.write(1, b"other\n")
    two.follower.finish()

    lines = two.shown.splitlines()
    assert b"[h:1] other" in lines
    assert all(line.startswith(b"[h:") for line in lines)
    assert sum(line.count(b"x") for line in lines) == 5 * LONGEST_LINE


def test_a_bar_without_end_is_kept_in_bounded_memory(console):
    two = console(2)
    for _ in range(20):
        two.write(0, b"\r" + b"x" * (LONGEST_LINE // 8))
        two.write(0, b"x" * (LONGEST_LINE // 2))
        assert len(two.follower.logs[0].partial) <= 2 * LONGEST_LINE


def test_an_unfinished_line_ends_with_its_round(console):
    """Also if it was shown before the next round's header was written."""
    two = console(2)
    two.write(0, b"unfinished")
    header = b"===== flota: round 1\n"
    log = two.follower.logs[0]
    log.begun = True
    log.skip(10, 10 + len(header))
    two.write(0, header + b"next round\n")

    assert two.shown == b"[h:0] unfinished\n[h:0] next round\n"


def test_a_log_that_is_not_followed_any_more_ends_its_line(console):
    three = console(3)
    three.write(0, b"unfinished")
    three.follower.keep_only([str(path) for path in three.paths[1:]])
    three.write(1, b"other\n")

    assert three.shown == b"[h:0] unfinished\n[h:1] other\n"


def test_colours_are_in_the_prefix_on_the_console_alone(console, tmp_path):
    with (tmp_path / "copy").open("wb") as copy:
        two = console(2, words=[b"one"], copy=copy.fileno(), colour=RANK_COLOURS[0])
        two.write(1, b"one\n")

    assert two.shown == b"\x1b[36m[h:1]\x1b[0m one\n"
    assert (tmp_path / "copy").read_bytes() == b"[h:1] one\n"


def test_another_writer_begins_on_an_empty_line(console):
    one = console(1, terminal=True)
    one.write(0, b"\r 10%")
    one.follower.end_line()
    one.follower.end_line()
    one.write(0, b"\r 20%\n")
    one.follower.end_line()

    assert one.shown == b"\r 10%\n\r 20%\n"
