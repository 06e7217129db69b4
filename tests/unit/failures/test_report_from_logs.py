"""What nodes have left in log directories, and which of it is of the last job."""

from __future__ import annotations

import fcntl
import json
import os
from datetime import UTC, datetime

import pytest

from flota.cli.commands.why import is_running
from flota.failures.report_from_logs import find_histories
from flota.job.report import Report, Verdict, report_as_dict
from flota.logs.directory import LOCK, is_locked, open_directory

HOUR = 3600.0
NOW = 1_800_000_000.0  # seconds since 1970


def leave(directory, node, began, ended, *, several=False, report=True):
    """What a node of a job leaves that began and ended at these times."""
    directory.mkdir(exist_ok=True)
    job = report_of(ended - began, several=several)
    events = [
        ("job_started", began, {"pid": 1}),
        ("round_started", began, {"attempt": 0, **({"nodes": 2} if several else {})}),
    ]
    events += [("job_ended", ended, {"report": report_as_dict(job)})] if report else [("stop_requested", ended, {})]
    with (directory / f"events.{node}.jsonl").open("a") as file:
        for event, at, facts in events:
            clock = datetime.fromtimestamp(at, UTC).isoformat()
            file.write(json.dumps({"time": clock, "event": event, "node": node, "job_id": "default", **facts}) + "\n")


def report_of(seconds, *, several=False):
    return Report("default", Verdict("failed", 1, 0), {"trainer": 1}, 1, seconds, "/log", several=several)


def nodes_told(*directories):
    return [history.node for history in find_histories([str(directory) for directory in directories])]


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ([("old", 0, HOUR), ("new", 2 * HOUR, 3 * HOUR)], ["new"]),
        ([("b", 0, HOUR), ("a", HOUR + 0.2, HOUR + 0.5)], ["a"]),
        ([("a", 0, 10), ("a", 20, 30), ("b", 11, 12)], ["a"]),
    ],
    ids=["of another name", "one right after the other", "the last of each"],
)
def test_of_several_jobs_on_one_machine_the_last_is_reported(tmp_path, left, told):
    for node, began, ended in left:
        leave(tmp_path, node, NOW + began, NOW + ended)

    assert nodes_told(tmp_path) == told


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ([("a", 0, 60), ("b", 5, 65), ("c", -5, 55)], ["a", "b", "c"]),
        ([("a", 0, 2), ("b", 5, 7), ("c", -5, -3)], ["a", "b", "c"]),
        ([("a", 0, HOUR), ("b", 0, 60), ("c", HOUR - 60, HOUR + 1)], ["a", "b", "c"]),
        ([("a", 0, 60), ("b", 0, 60), ("c", -HOUR, -HOUR + 60)], ["a", "b"]),
    ],
    ids=["clocks differ", "clocks differ by more than it took", "one had left when another came", "of an earlier job"],
)
def test_nodes_of_one_job_were_under_way_at_the_same_time(tmp_path, left, told):
    for node, began, ended in left:
        leave(tmp_path / node, node, NOW + began, NOW + ended, several=True)

    assert nodes_told(tmp_path) == told


def test_a_node_that_left_no_report_belongs_to_the_job_whose_others_did(tmp_path):
    leave(tmp_path, "a", NOW, NOW + HOUR, several=True)
    leave(tmp_path, "b", NOW, NOW + 60, several=True, report=False)
    leave(tmp_path, "c", NOW - HOUR, NOW - 60, several=True, report=False)

    assert nodes_told(tmp_path) == ["a", "b"]


@pytest.mark.parametrize(("ended", "told"), [(2 * HOUR, [""]), (HOUR, ["a"])], ids=["newer", "the same job's"])
def test_a_report_that_is_newer_than_all_events_is_used_alone(tmp_path, ended, told):
    leave(tmp_path, "a", NOW, NOW + HOUR)
    (tmp_path / "report.json").write_text(json.dumps(report_as_dict(report_of(HOUR if ended == HOUR else 60.0))))
    os.utime(tmp_path / "report.json", (NOW + ended, NOW + ended))

    assert nodes_told(tmp_path) == told


@pytest.mark.parametrize("shared", [False, True])
def test_a_job_is_under_way_while_it_holds_its_directory(tmp_path, shared):
    leave(tmp_path, "a", NOW, NOW + 60, report=False)
    (history,) = find_histories([str(tmp_path)])
    before = is_running(history)  # a process 1 is always there

    lock = open_directory(str(tmp_path), "default", shared=shared)
    during = is_running(history)
    os.close(lock)

    assert (before, during, is_running(history)) == (False, True, False)


@pytest.mark.parametrize(
    ("node", "pid", "expected"), [("here", "own", True), ("here", "none", False), ("there", "own", False)]
)
def test_where_there_are_no_locks_the_process_must_be_here(tmp_path, monkeypatch, node, pid, expected):
    def refuse(*_):
        raise OSError

    (tmp_path / LOCK).touch()
    leave(tmp_path, "a", NOW, NOW + 60, report=False)
    (history,) = find_histories([str(tmp_path)])
    started = {**history.events[0], "pid": os.getpid() if pid == "own" else 1 << 30}
    monkeypatch.setattr(fcntl, "flock", refuse)

    name = os.uname().nodename if node == "here" else "elsewhere"
    assert is_running(history._replace(node=name, events=(started,))) is expected


def test_a_directory_without_a_lock_is_not_in_use(tmp_path):
    assert is_locked(str(tmp_path)) is False
