"""Rotation in real files, where a new file cannot be created, or another process has moved the log."""

from __future__ import annotations

import os
import resource

import pytest

from flota.logs.last_room import FIRST_CHECK, ROOM, LastRoom, room_of
from flota.logs.rotation import RotatingLog

LINE = b"%05d " + b"x" * 93 + b"\n"  # 100 bytes
MAX_SIZE = 1000


class Written:
    """A log, and the numbered lines that were written to it."""

    def __init__(self, path, backups):
        self.path, self.lines, self.errors = path, 0, []
        self.log = RotatingLog(str(path), MAX_SIZE, backups)
        self.log.on_error = self.errors.append

    def write(self, lines):
        numbers = range(self.lines, self.lines + lines)
        self.lines += lines
        os.write(self.log.writer, b"".join(LINE % number for number in numbers))
        assert self.log.on_ready()

    def close(self):
        os.close(self.log.writer)
        assert not self.log.on_ready()


@pytest.fixture
def open_log(tmp_path):
    opened = []

    def open_one(backups=5):
        opened.append(Written(tmp_path / "workerlog.0", backups))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def no_new_files():
    """No file can be opened, as without inodes. Call it to end that."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def forbid():
        free = os.open(os.devnull, os.O_RDONLY)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))

    def allow():
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    yield forbid, allow
    allow()


def contents(directory):
    """The numbers of the lines in each file."""
    return {
        path.name: [int(line.split()[0]) for line in path.read_text().splitlines()]
        for path in sorted(directory.iterdir())
    }


def test_old_files_are_renamed_and_the_oldest_is_replaced(tmp_path, open_log):
    open_log(backups=2).write(45)

    assert contents(tmp_path) == {
        "workerlog.0": [*range(40, 45)],
        "workerlog.0.1": [*range(30, 40)],
        "workerlog.0.2": [*range(20, 30)],
    }


def test_without_backups_only_the_log_is_kept(tmp_path, open_log):
    open_log(backups=0).write(25)

    assert contents(tmp_path) == {"workerlog.0": [*range(20, 25)]}


def test_no_line_is_lost_while_no_file_can_be_created(tmp_path, open_log, no_new_files):
    forbid, allow = no_new_files
    log = open_log(backups=2)
    log.write(35)
    before = contents(tmp_path)

    forbid()
    log.write(40)
    allow()

    assert contents(tmp_path) == {**before, "workerlog.0": [*range(30, 75)]}
    (error,) = log.errors
    assert error.startswith(f"cannot rotate {log.path}: Too many open files")


def test_rotation_continues_when_files_can_be_created_again(tmp_path, open_log, no_new_files):
    forbid, allow = no_new_files
    log = open_log()
    log.write(10)
    forbid()
    log.write(5)
    allow()

    log.write(10)

    assert contents(tmp_path) == {"workerlog.0": [*range(20, 25)], "workerlog.0.1": [*range(20)]}


def test_files_that_cannot_be_renamed_are_kept(tmp_path, open_log):
    (tmp_path / "workerlog.0.1").mkdir()
    (tmp_path / "workerlog.0.1" / "mine").touch()
    log = open_log(backups=1)

    log.write(25)

    assert log.path.read_bytes() == b"".join(LINE % number for number in range(25))
    assert sorted(os.listdir(tmp_path)) == ["workerlog.0", "workerlog.0.1"]
    assert len(log.errors) == 1


@pytest.mark.parametrize("put", [None, b""], ids=["moved", "replaced"])
def test_no_older_file_is_lost_when_the_log_is_moved(tmp_path, open_log, put):
    log = open_log(backups=2)
    log.write(30)
    os.rename(log.path, tmp_path / "mine")
    if put is not None:
        log.path.write_bytes(put)

    log.write(15)

    assert contents(tmp_path) == {
        "mine": [*range(20, 30)],
        "workerlog.0": [*range(40, 45)],
        "workerlog.0.1": [*range(30, 40)],
        "workerlog.0.2": [*range(10, 20)],
    }
    assert not log.errors


def test_a_gap_between_older_files_is_filled_first(tmp_path, open_log):
    log = open_log(backups=2)
    log.write(30)
    os.unlink(tmp_path / "workerlog.0.1")

    log.write(5)

    assert contents(tmp_path) == {
        "workerlog.0": [*range(30, 35)],
        "workerlog.0.1": [*range(20, 30)],
        "workerlog.0.2": [*range(10)],
    }


def test_the_loss_of_the_directory_is_reported_once(tmp_path, open_log):
    log = open_log()
    tmp_path.rename(tmp_path.with_name("moved"))

    log.write(45)

    assert len(log.errors) == 1


def test_rotated_files_keep_no_room(tmp_path, open_log):
    log = open_log()
    log.write(5)
    room = LastRoom()
    room.begin_round([str(log.path)], 0.0)
    room.on_time(FIRST_CHECK)
    if room_of(os.stat(log.path)) < ROOM // 2:
        pytest.skip("this file system cannot allocate space in advance")

    log.write(10)

    assert room_of(os.stat(tmp_path / "workerlog.0.1")) < 4096
