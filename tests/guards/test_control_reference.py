"""docs/reference/control.md describes every request, field and state of the control API, and nothing else."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

import msgspec
import pytest

from flota.control import status
from flota.control.server import ANSWERS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "control.md").read_text()


def rows(first: str) -> dict[str, str]:
    """The rows of the table that begins with this cell: what they describe, and all other cells."""
    lines = PAGE.partition(f"| {first} |")[2].splitlines()[2:]
    cells = (line.split(" | ", 1) for line in takewhile(lambda line: line.startswith("|"), lines))
    return {first.strip("| "): rest for first, rest in cells}


def names(text: str) -> list[str]:
    return re.findall(r"`([a-z_]+)`", text)


def test_requests():
    described = {tuple(re.match(r"`(GET|POST) (/v1/\w+)", cell).groups()) for cell in rows("request")}

    assert described == ANSWERS.keys()


@pytest.mark.parametrize(
    ("table", "kind"), [("job", status.JobStatus), ("node", status.NodeStatus), ("rank", status.RankStatus)]
)
def test_fields(table, kind):
    described = [name for cell in rows(table) for name in names(cell)]

    assert sorted(described) == sorted(field.name for field in msgspec.structs.fields(kind))


@pytest.mark.parametrize(
    ("table", "states"),
    [
        ("job", (status.WAITING, status.RUNNING, status.RESTARTING, status.STOPPING, status.ENDED)),
        ("rank", (status.STARTING, status.RUNNING, status.DONE, status.FAILED, status.STOPPED)),
    ],
)
def test_states(table, states):
    described = next(text for cell, text in rows(table).items() if "state" in names(cell))

    assert {*states} <= {*names(described)}
