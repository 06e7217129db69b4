"""Reads the events of a node, and makes the ledger of a node at its end, when the user waits: imports little."""

from __future__ import annotations

import os

from flota.ledger.history import read_node
from flota.ledger.ledger import Ledger, make_ledger
from flota.logs.directory import read_end
from flota.logs.parse_events import MOST_EVENTS, is_count, is_number, parse_object

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
    lines = read_end(path, MOST_EVENTS).splitlines()
    return [event for line in lines if only in line and (event := parse_event(line))]


def parse_event(line: bytes) -> Json | None:
    """None if it is not an event."""
    event = parse_object(line)
    return event if isinstance(event.get("event"), str) and is_number(event.get("monotonic")) else None


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


def last_job(parts: list[list[Json]]) -> list[list[Json]]:
    """The last process in a file, others that ran at the same time, and those that were killed before they joined the
    same job again."""
    last: list[list[Json]] = []
    for part in reversed(parts):
        began, ended, rounds = part[0]["monotonic"], part[-1]["monotonic"], _rounds(part)
        beside = any(began <= one[-1]["monotonic"] and one[0]["monotonic"] <= ended for one in last)
        rejoined = part[-1]["event"] != "job_ended" and rounds and max(rounds) < min(map(_first_round, last), default=0)
        if last and not beside and not rejoined:
            break
        last.append(part)
    return last


def _rounds(part: list[Json]) -> list[int]:
    return [event["round"] for event in part if event["event"] == "round_started" and is_count(event.get("round"))]


def _first_round(part: list[Json]) -> int:
    return min(_rounds(part), default=0)
