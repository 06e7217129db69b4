"""Room for the last output of workers, in real files."""

from __future__ import annotations

import os

import pytest

from flota.logs.last_room import FIRST_CHECK, PERIOD, ROOM, LastRoom, room_of


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "workerlog.0"
    path.write_text("===== flota: =====\n")
    return path


@pytest.fixture
def room(log):
    made = LastRoom()
    made.begin_round([str(log), str(log) + ".removed", os.devnull], 0.0)
    made.on_time(FIRST_CHECK)
    if room_of(os.stat(log)) < ROOM // 2:
        pytest.skip("this file system cannot allocate space in advance")
    return made


def test_room_does_not_change_what_a_log_contains(room, log):
    assert room_of(os.stat(log)) >= ROOM - 4096
    assert log.read_text() == "===== flota: =====\n"


def test_room_is_allocated_again_when_the_log_has_grown(room, log):
    with open(log, "ab") as file:
        file.write(bytes(ROOM))

    room.on_time(FIRST_CHECK + PERIOD)

    assert room_of(os.stat(log)) >= ROOM // 2


def test_no_log_is_opened_before_its_time(room, log):
    log.write_text("")

    room.on_time(FIRST_CHECK + PERIOD / 2)

    assert room_of(os.stat(log)) == 0


def test_room_is_given_back(room, log):
    room.release()

    assert room_of(os.stat(log)) <= 4096
    assert log.read_text() == "===== flota: =====\n"


def test_a_log_of_several_gigabytes_gets_room_at_its_end(tmp_path, room):
    large = tmp_path / "large"
    large.touch()
    os.truncate(large, 5 << 30)
    room.begin_round([str(large)], 0.0)

    room.on_time(FIRST_CHECK)

    with open(large, "rb") as file:
        assert os.lseek(file.fileno(), 0, os.SEEK_END) == 5 << 30
    assert os.stat(large).st_blocks * 512 >= ROOM
