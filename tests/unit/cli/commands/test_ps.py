from __future__ import annotations

import pytest

from flota.cli.commands.ps import HEAD, row_of
from flota.cli.table import table
from flota.errors import MissingNode, UnknownNode

JOB = {
    "job_id": "default",
    "pid": 4711,
    "state": "running",
    "nodes": 2,
    "hosts": ["gpu01", "gpu02"],
    "ranks": 16,
    "attempt": 1,
    "restarts": 3,
    "steps": [1240, 1242],
    "total": 5000,
    "began": 0.0,
    "log_dir": "/data/log",
}


def test_a_row_has_what_identifies_a_job_and_tells_how_far_it_is():
    head, row = table([HEAD, row_of(JOB)])

    assert head.split() == ["JOB", "PID", "STATE", "NODES", "RANKS", "ATTEMPT", "STEP", "AGE", "LOG", "DIR"]
    assert row.startswith("default  4711  running  2 (gpu01, gpu02)  16     1        1,240-1,242/5,000  ")
    assert row.endswith("  /data/log")


@pytest.mark.parametrize(
    ("hosts", "shown"),
    [(["gpu01"], "1"), (["a", "b", "c", "d"], "4 (a, b, c, d)"), (["a", "b", "c", "d", "e"], "5"), ([], "-")],
)
def test_few_nodes_are_named(hosts, shown):
    assert row_of({**JOB, "nodes": len(hosts) or None, "hosts": hosts})[3] == shown


def test_a_host_name_cannot_control_the_terminal():
    assert "\x1b" not in row_of({**JOB, "hosts": ["a", "\x1b[2J"]})[3]


@pytest.mark.parametrize("error", [MissingNode(), UnknownNode("7", "")])
def test_hints_about_nodes_name_the_command_that_lists_all_of_them(error):
    assert error.hint.endswith("flota ps --json")
