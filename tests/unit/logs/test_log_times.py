"""What a node notes about its logs while they grow, in real files."""

from __future__ import annotations

import json
import os

import pytest

from flota.logs.log_times import LARGEST, LONGEST_PERIOD, PERIOD, LogTimes, thinned, times_file


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "workerlog.0"
    path.write_text("an earlier job\nheader\n")
    return path


@pytest.fixture
def times(tmp_path, log):
    made = LogTimes()
    made.begin_round(times_file(str(tmp_path), "gpu01"), 0, {str(log): (15, 22)}, 100.0)
    return made


def lines(tmp_path):
    path = tmp_path / "times.gpu01.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def grow(log, text="more\n"):
    with open(log, "a") as file:
        file.write(text)


def test_the_first_look_notes_where_the_round_begins_and_how_long_the_log_is(times, log, tmp_path):
    grow(log)

    times.on_time(101.0)

    inode = os.stat(log).st_ino
    first, second = lines(tmp_path)
    assert (first["round"], first["pid"], first["starts"]) == (0, os.getpid(), {"workerlog.0": [inode, 15]})
    assert second["sizes"]["workerlog.0"][:2] == [inode, 27]
    assert times.starts == {str(log): (inode, 15)}


def test_a_log_that_has_not_grown_is_not_noted(times, log, tmp_path):
    times.on_time(101.0)

    assert lines(tmp_path) == []


def test_a_job_that_ends_before_the_first_look_leaves_no_file(times, log, tmp_path):
    grow(log)

    times.end_round()

    assert lines(tmp_path) == []


def test_the_last_output_is_noted_when_the_round_ends(times, log, tmp_path):
    times.on_time(101.0)
    grow(log)

    times.end_round()

    assert [list(line) for line in lines(tmp_path)] == [["at", "pid", "round", "starts"], ["sizes"]]


def test_a_short_round_is_noted_when_the_next_one_begins(times, log, tmp_path):
    times.end_round()
    times.begin_round(times_file(str(tmp_path), "gpu01"), 1, {str(log): (22, 30)}, 100.5)

    assert [line["round"] for line in lines(tmp_path)] == [0]
    assert times.starts[str(log)][1] == 15


def test_looks_become_rare_while_no_log_grows(times, log):
    now, waits = 100.0, []
    for _ in range(6):
        now, before = times.deadline, now
        times.on_time(now)
        waits.append(times.deadline - now)

    assert waits == sorted(waits, key=round)
    assert LONGEST_PERIOD - 1 <= waits[-1] <= LONGEST_PERIOD
    assert before

    grow(log)
    times.on_time(times.deadline)

    assert times.deadline - now <= LONGEST_PERIOD + 2 * PERIOD


def test_without_logs_there_are_no_looks(tmp_path):
    times = LogTimes()

    times.begin_round(times_file(str(tmp_path), "gpu01"), 0, {}, 100.0)

    assert times.deadline == float("inf")


def test_the_time_of_a_write_is_never_outside_of_two_looks(times, log, tmp_path):
    """The clock of a file server may be wrong."""
    grow(log)
    os.utime(log, (5.0, 5.0))
    times.on_time(101.0)
    grow(log)
    os.utime(log, (1e11, 1e11))
    times.on_time(times.deadline)

    began, first, second = lines(tmp_path)
    assert began["at"] <= first["sizes"]["workerlog.0"][2] <= second["sizes"]["workerlog.0"][2] < 1e11


def test_a_rotated_log_is_noted_with_its_new_file(times, log, tmp_path):
    os.rename(log, f"{log}.1")
    log.write_text("new\n")

    times.on_time(101.0)

    assert lines(tmp_path)[-1]["sizes"]["workerlog.0"][:2] == [os.stat(log).st_ino, 4]


def test_the_file_is_bounded(times, log, tmp_path):
    path = tmp_path / "times.gpu01.jsonl"
    for _ in range(40):
        grow(path, '{"sizes": {"workerlog.0": [1, 2, 3.5]}}\n' * (LARGEST // 400))
        grow(log)
        times.on_time(times.deadline)

        assert path.stat().st_size < LARGEST * 1.2
        assert lines(tmp_path)[-1]["sizes"]["workerlog.0"][1] == os.stat(log).st_size


def test_thinning_keeps_the_newer_half_and_all_rounds():
    start = b'{"at": 1.0, "pid": 7, "round": 0, "starts": {"a": [5, 0]}}\n'
    sizes = [b'{"sizes": {"a": [5, %d, %d.0], "%d": [6, 1, 1.0]}}\n' % (n, n, n) for n in range(7)]

    thin = thinned(b"".join([start, *sizes])).splitlines()

    assert thin[0] + b"\n" == start
    assert json.loads(thin[1]) == {"sizes": {"a": [5, 1, 1.0], "0": [6, 1, 1.0], "1": [6, 1, 1.0]}}
    assert [line + b"\n" for line in thin[-4:]] == sizes[-4:]
    assert len(thin) == 7
