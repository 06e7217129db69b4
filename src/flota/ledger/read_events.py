"""Reads the events of a node, and makes the ledger of a node at its end, when the user waits: imports little."""

from __future__ import annotations

import os

from flota.ledger.history import read_node
from flota.ledger.ledger import Ledger, make_ledger
from flota.logs.directory import read_end
from flota.logs.parse_events import MOST_EVENTS, is_number, parse_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]


def node_ledger(path: str, now: float, report: Json) -> Ledger | None:
    """The ledger of this node, which is about to write its report."""
    last = split_processes(read_events(path, only=f'"flota_pid": {os.getpid()},'.encode()))[-1:]
    node = read_node([*last[0], {"event": "job_ended", "monotonic": now, "report": report}]) if last else None
    return make_ledger([node], adds_missing=False) if node else None


def read_events(path: str, only: bytes = b"") -> list[Json]:
    """Events of all jobs in a file. Anything else in it is skipped. `only`: lines that contain this."""
    events = (parse_object(line) for line in read_end(path, MOST_EVENTS).splitlines() if only in line)
    return [event for event in events if isinstance(event.get("event"), str) and is_number(event.get("monotonic"))]


def split_processes(events: list[Json]) -> list[list[Json]]:
    """The events of each flota process, in the order of their ends. Two nodes on one host write to the same file."""
    open_: dict[str, list[Json]] = {}
    parts = []
    for event in events:
        pid = str(event.get("flota_pid"))
        if event["event"] == "job_started" or pid not in open_:
            open_[pid] = []
            parts.append(open_[pid])
        open_[pid].append(event)
    return sorted(parts, key=lambda part: float(part[-1]["monotonic"]))
