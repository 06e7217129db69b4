"""The files of a log, found by their inodes while they are renamed."""

from __future__ import annotations

import os

import pytest

from flota.logs.log_parts import MOST_OPEN, LogPart, PartReader, parts_of, read_from, read_part


def make(path, text):
    path.write_text(text)
    return os.stat(path).st_ino


def test_the_oldest_part_comes_first(tmp_path):
    log = tmp_path / "workerlog.0"
    inodes = [make(tmp_path / f"workerlog.0{end}", "x" * size) for end, size in ((".2", 3), (".1", 2), ("", 1))]

    assert parts_of(str(log)) == tuple(map(LogPart, inodes, (3, 2, 1)))


def test_a_name_that_is_missing_during_a_rotation_hides_no_part(tmp_path):
    log = tmp_path / "workerlog.0"
    inodes = [make(tmp_path / f"workerlog.0{end}", "x") for end in (".3", ".2", "")]

    assert [part.inode for part in parts_of(str(log))] == inodes


def test_a_log_that_does_not_exist_has_no_parts(tmp_path):
    assert parts_of(str(tmp_path / "workerlog.0")) == ()


def test_a_part_is_read_under_its_present_name(tmp_path):
    log = tmp_path / "workerlog.0"
    inode = make(log, "0123456789")
    os.rename(log, f"{log}.1")
    make(log, "new")

    assert read_part(str(log), inode, 2, 3) == b"234"


def test_a_part_that_was_rotated_away_is_empty(tmp_path):
    log = tmp_path / "workerlog.0"
    inode = make(log, "new")

    assert read_part(str(log), inode + 1, 0) == b""


@pytest.mark.parametrize(
    ("offset", "part"),
    [
        (0, (0, b"one\ntw")),
        (4, (4, b"two\n")),
        (-4, (4, b"two\n")),
        (-100, (0, b"one\ntw")),
        (100, (8, b"")),
        (8, (8, b"")),
    ],
)
def test_a_file_is_read_from_an_offset(tmp_path, offset, part):
    (tmp_path / "workerlog.0").write_text("one\ntwo\n")

    assert read_from(str(tmp_path / "workerlog.0"), offset, 6) == part


def test_a_reader_goes_on_with_a_file_that_was_removed(tmp_path):
    log, reader = tmp_path / "workerlog.0", PartReader()
    inode = make(log, "0123456789")
    assert reader.read(str(log), inode, 0, 2) == b"01"
    log.unlink()

    assert reader.read(str(log), inode, 2, 9) == b"23456789"
    assert reader.read(str(log), inode + 1, 0, 9) == b""


def test_a_reader_keeps_few_files_open(tmp_path):
    reader = PartReader()
    inodes = {
        str(tmp_path / f"log.{number}"): make(tmp_path / f"log.{number}", "x") for number in range(MOST_OPEN + 20)
    }
    before = len(os.listdir("/proc/self/fd"))

    assert {reader.read(path, inode, 0, 9) for path, inode in inodes.items()} == {b"x"}

    assert len(os.listdir("/proc/self/fd")) - before <= MOST_OPEN
    assert {reader.read(path, inode, 0, 9) for path, inode in inodes.items()} == {b"x"}


def test_a_fifo_is_not_read(tmp_path):
    log = tmp_path / "workerlog.0"
    os.mkfifo(log)

    assert read_part(str(log), os.stat(log).st_ino, 0) == b""
