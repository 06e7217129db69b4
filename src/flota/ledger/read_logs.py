"""Reads the ledger of the last job from the log directories of its nodes."""

from __future__ import annotations

import os
import time
from typing import Any

from flota.failures.report_from_logs import NodeHistory, select_last_job
from flota.ledger.history import NodeTimes, read_node
from flota.ledger.ledger import Ledger, make_ledger
from flota.ledger.read_events import last_job, read_events, split_processes
from flota.logs.directory import is_locked
from flota.logs.find_runs import run_directories
from flota.logs.parse_events import is_count, parse_time

Json = dict[str, Any]


def find_ledger(paths: list[str]) -> tuple[str, Ledger] | None:
    """The id and the ledger of the last job in these directories, their latest runs, and their subdirectories."""
    return ledger_of(find_nodes(paths))


def find_nodes(paths: list[str]) -> list[NodeHistory]:
    """The nodes of that job, with their events."""
    found = [history for path in paths for directory in run_directories(path) for history in _read(directory)]
    last = select_last_job(found)
    return [history for history in found if any(history is one for one in last)]


def ledger_of(histories: list[NodeHistory]) -> tuple[str, Ledger] | None:
    nodes = [node for history in histories if (node := _node_times(history))]
    job_ids = [str(event["job_id"]) for history in histories for event in history.events if "job_id" in event]
    return (job_ids[0] if job_ids else "", make_ledger(nodes)) if nodes else None


def _read(directory: str) -> list[NodeHistory]:
    try:
        names = sorted(os.listdir(directory))
    except OSError:
        return []
    files = [name for name in names if name.startswith("events.") and name.endswith(".jsonl")]
    return [
        NodeHistory(
            str(events[0].get("node", "")),
            directory,
            None,
            tuple(events),
            *(parse_time(event.get("time")) for event in (events[0], events[-1])),
        )
        for name in files
        for events in last_job(split_processes(read_events(f"{directory}/{name}")))
    ]


def _node_times(history: NodeHistory) -> NodeTimes | None:
    events = list(history.events)
    if events[-1]["event"] == "job_ended" or is_locked(history.directory) is False:
        return read_node(events)
    # On another machine, no more is known than its last event.
    is_here = history.node == os.uname().nodename
    pids = [event["pid"] for event in events if event["event"] == "job_started" and is_count(event.get("pid"))]
    if is_here and not any(os.path.exists(f"/proc/{pid}") for pid in pids):
        return read_node(events)
    return read_node(events, now=time.monotonic() if is_here else events[-1]["monotonic"])
