"""The events of a job's nodes: read part by part while it runs, and what they say about ranks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from flota.control.status import DONE, FAILED, RUNNING, STOPPED, RankStatus
from flota.job.report import NO_STEP
from flota.job.roles import TRAINER
from flota.ledger.read_events import last_job, parse_event, split_processes
from flota.logs.parse_events import is_count, is_integer, is_number, parse_time

Json = dict[str, Any]
RankRecord = tuple[float, int, RankStatus]  # when, in seconds since 1970; the round; what was known then
MOST_RECORDS, LEAST_RECORDS = 100_000, 500  # of ranks in `progress` events: of all nodes, and at least of each
MOST_NUMBERS = 8


class NodeEvents:
    """One node's file. Of the records of long jobs some are dropped: each second one, again and again. `nodes`: of the
    whole job."""

    def __init__(self, nodes: int = 1) -> None:
        self.events: list[Json] = []
        self._most_records = max(LEAST_RECORDS, MOST_RECORDS // nodes)
        self._records = 0
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """The next bytes of the file. Lines that are not events are skipped."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if event := parse_event(line):
                self.events.append(event)
                self._records += len(_rows(event))
        while self._records > self._most_records:
            self._thin()

    def _thin(self) -> None:
        kept, is_dropped = [], False
        for event in self.events:
            is_dropped = not is_dropped if _rows(event) else is_dropped
            if not (is_dropped and _rows(event)):
                kept.append(event)
        self.events = kept
        self._records = sum(len(_rows(event)) for event in kept)


def nodes_of(files: Iterable[NodeEvents]) -> list[list[Json]]:
    """The events of each node of the last job. Nodes on one machine may write to one file, which is given for each."""
    parts: dict[tuple[str, str, float], list[Json]] = {}
    for file in files:
        for part in last_job(split_processes(file.events)):
            parts[str(part[0].get("node")), str(part[0].get("flota_pid")), part[0]["monotonic"]] = part
    return list(parts.values())


def _rows(event: Json) -> list[Any]:
    rows = event.get("ranks") if event["event"] == "progress" else None
    return rows if isinstance(rows, list) else []


def replay(events: list[Json]) -> Iterator[RankRecord]:
    """What became known about the ranks of one node, step by step."""
    ranks: dict[tuple[str, int], RankStatus] = {}
    number = 0
    for event in events:
        name, at = event["event"], parse_time(event.get("time"))
        if name == "round_started" and is_count(event.get("round")):
            number, ranks = event["round"], {}
        elif name in ("worker_started", "worker_exited", "progress"):
            for row in _rows(event) if name == "progress" else (event,):
                if not isinstance(row, dict) or not is_count(row.get("rank")):
                    continue
                key = str(row.get("role", TRAINER)), row["rank"]
                before = ranks.get(key, RankStatus(key[1], key[0], state=RUNNING))
                known = _with_facts(before, event) if row is event else _with_record(before, row)
                ranks[key] = known
                if before.step == NO_STEP != known.step:
                    yield from _first_step(event, row, at, number, known)
                yield at, number, known


def _first_step(event: Json, row: Json, at: float, number: int, known: RankStatus) -> Iterator[RankRecord]:
    """The first step of a process, from the first record that has it."""
    times = row.get("times") if row is event else row
    first_at, first_step = times.get("first_at"), times.get("first_step")  # type: ignore[union-attr]
    if is_number(first_at) and is_count(first_step) and 0 < first_at < event["monotonic"]:
        yield at - (event["monotonic"] - first_at), number, replace(known, step=first_step, numbers={})


def _with_facts(rank: RankStatus, event: Json) -> RankStatus:
    """After `worker_started` or `worker_exited`."""
    if event["event"] == "worker_started":
        devices, pid = event.get("devices"), event.get("pid")
        named = tuple(map(str, devices)) if isinstance(devices, list) else ()
        return RankStatus(rank.rank, rank.role, devices=named, pid=pid if is_count(pid) else 0, state=RUNNING)
    if not is_integer(event.get("code")):
        return rank
    state = STOPPED if event.get("asked_to_stop") is True else FAILED if event["code"] else DONE
    times = event.get("times")
    known = _with_record(rank, times) if isinstance(times, dict) else rank
    return replace(known, state=state, exit_code=event["code"])


def _with_record(rank: RankStatus, row: Json) -> RankStatus:
    """After a record: see the times of a worker in docs/reference/files.md."""
    step, total, seconds, numbers = (row.get(name) for name in ("last_step", "total", "seconds", "numbers"))
    some = list(numbers.items())[:MOST_NUMBERS] if isinstance(numbers, dict) else []
    return replace(
        rank,
        step=step if is_integer(step) else rank.step,
        total=total if is_count(total) else rank.total,
        step_seconds=seconds if is_number(seconds) and seconds > 0 else rank.step_seconds,
        numbers={name: float(value) for name, value in some if is_number(value)} or rank.numbers,
    )
