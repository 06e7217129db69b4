"""Where the time of a running job went until now, from the events of all its nodes. Pure."""

from __future__ import annotations

from typing import Any

from flota.control.client import JobAnswer
from flota.ledger.history import read_node
from flota.ledger.ledger import Ledger, make_ledger
from flota.logs.parse_events import is_count, parse_time

Json = dict[str, Any]
Process = tuple[str, str]  # host and pid of a node


def make_live_ledger(nodes: list[list[Json]], answer: JobAnswer) -> Ledger | None:
    """`nodes`: the events of each node, which have its own monotonic clock."""
    running = {(node.host, str(node.pid)): node.seat for node in answer.nodes}
    silent = {host for host, _ in answer.missing}
    events_of = {_process(events): events for events in nodes}
    reference = next((events for process, events in events_of.items() if running.get(process) == answer.seat), None)
    passed = _passed(reference, answer.job.now) if reference else {}
    times = []
    for process, events in events_of.items():
        is_running = process in running or process[0] in silent
        known = read_node(events, now=_now(events, passed) if is_running else None)
        times += [known] if known else []
    return make_ledger(times) if times else None


def _process(events: list[Json]) -> Process:
    return str(events[0].get("node", "")), str(events[0].get("flota_pid"))


def _starts(events: list[Json]) -> dict[int, float]:
    """When each round started, on the node's monotonic clock."""
    started = (event for event in events if event["event"] == "round_started" and is_count(event.get("round")))
    return {event["round"]: event["monotonic"] for event in started}


def _passed(events: list[Json], now: float) -> dict[int, float]:
    """The seconds from the start of each round until now, in seconds since 1970 by the same node's clock."""
    last = events[-1]
    monotonic = last["monotonic"] + max(0.0, now - parse_time(last.get("time")))
    return {number: monotonic - started for number, started in _starts(events).items()}


def _now(events: list[Json], passed: dict[int, float]) -> float:
    """The node's monotonic clock: nodes start a round together, whatever their clocks say."""
    known = [started + passed[number] for number, started in _starts(events).items() if number in passed]
    return max(float(events[-1]["monotonic"]), known[-1] if known else 0.0)
