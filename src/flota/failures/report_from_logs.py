"""Reads the report of a finished job from the log directories of its nodes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from flota.failures.blame import in_order_of_blame
from flota.failures.diagnosis import Evidence, diagnosed
from flota.failures.last_output import last_output, read_tail
from flota.job.report import (
    FAILED,
    MOST_WORKERS,
    FailedWorker,
    Report,
    Verdict,
    exit_code_of_all,
    report_from_dict,
    with_failures,
)
from flota.job.roles import TRAINER, log_stem
from flota.logs.directory import ROUND_HEADER, read_end
from flota.logs.find_runs import run_directories
from flota.logs.parse_events import MOST_EVENTS, is_count, is_integer, is_number, parse_object, parse_time
from flota.values import NamedTuple

Json = dict[str, Any]
SKEW = 10.0  # seconds by which the clocks of a job's machines may differ
MOST_REPORT = 16 << 20  # bytes


class NodeHistory(NamedTuple):
    """What one node's log directory says about its last job: a report, or without one only events. `began` and `ended`
    are by the node's clock. `ended` is the last event, if the end is unknown."""

    node: str
    directory: str
    report: Report | None
    events: tuple[Json, ...] = ()
    began: float = 0.0
    ended: float = 0.0

    @property
    def several(self) -> bool:
        return self.report.several if self.report else any("nodes" in event for event in self.events)


def find_histories(paths: list[str]) -> list[NodeHistory]:
    """The last job's histories in these directories, their latest runs, and their subdirectories."""
    found = [history for path in paths for directory in run_directories(path) for history in _read(directory)]
    last = select_last_job(found)
    # A node's events contain its report: report.json adds nothing to them.
    has_report = any(history.node and history.report for history in last)
    return [history for history in found if history in last and (history.node or not has_report)]


def select_last_job(found: list[NodeHistory]) -> list[NodeHistory]:
    """Histories that overlap in time with the latest one. A directory may also contain nodes of earlier jobs, such as
    containers with other names."""
    began = max((one.ended for one in found), default=0.0)
    last = []
    for one in sorted(found, key=lambda one: one.ended, reverse=True):
        if one.ended + (SKEW if one.several else 0.0) < began:
            break
        began = min(began, one.began)
        last.append(one)
    return last


def _read(directory: str) -> list[NodeHistory]:
    histories = []
    for name in _names(directory):
        events = _last_job(f"{directory}/{name}") if name.startswith("events.") and name.endswith(".jsonl") else []
        if events:
            last = events[-1]
            report = _report(last.get("report")) if last["event"] == "job_ended" else None
            times = [parse_time(event.get("time")) for event in (events[0], last)]
            histories.append(NodeHistory(str(last.get("node", "")), directory, report, tuple(events), *times))
    saved = _report(parse_object(read_end(f"{directory}/report.json", MOST_REPORT)))
    if saved and all(history.report != saved for history in histories):
        ended_at = _changed_at(f"{directory}/report.json")
        histories.append(NodeHistory("", directory, saved, (), ended_at - saved.seconds, ended_at))
    return histories


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _report(values: object) -> Report | None:
    """None if there is no report, or if the file contains something else."""
    try:
        return report_from_dict(values) if values and isinstance(values, dict) else None
    except (TypeError, ValueError, AttributeError):
        return None


def _last_job(path: str) -> list[Json]:
    """The events of the last job. The last line may be incomplete."""
    lines = read_end(path, MOST_EVENTS).splitlines()
    events = [event for line in lines if (event := parse_object(line)) and _is_event(event)]
    starts = [number for number, event in enumerate(events) if event["event"] == "job_started"]
    return events[starts[-1] if starts else 0 :]


def _is_event(value: Json) -> bool:
    """Whether it has all fields that are used here. Other lines in the file are skipped."""
    checks: dict[str, dict[str, Callable[[object], bool]]] = {
        "job_started": {"pid": is_count},
        "round_started": {"attempt": is_count},
        "worker_started": {"rank": is_count, "pid": is_count, "monotonic": is_number},
        "worker_exited": {"rank": is_count, "code": is_integer, "monotonic": is_number},
    }
    name = value.get("event")
    return isinstance(name, str) and all(check(value.get(key)) for key, check in checks.get(name, {}).items())


# Jobs whose flota or machine died.


def reconstruct_report(histories: list[NodeHistory]) -> Report:
    """Make a report from events and logs of nodes without one. Assumes that their clocks agree."""
    events = [event for history in histories for event in history.events]
    sizes = [event.get("world_size") for event in events if event["event"] == "job_started"]
    rounds = [(history, _last_round(history)) for history in histories]
    exits = [
        (history, round_, event) for history, round_ in rounds for event in round_ if event["event"] == "worker_exited"
    ]
    found = [_failed(*one) for one in exits if one[2]["code"] != 0 and not one[2].get("asked_to_stop")]
    blamed = tuple(in_order_of_blame(found))
    report = Report(
        job_id=str(events[0].get("job_id", "")),
        verdict=Verdict(FAILED, exit_code_of_all(blamed), max((one.attempt for one in found), default=0)),
        sizes={TRAINER: max((size for size in sizes if is_count(size) and size <= MOST_WORKERS), default=0)},
        rounds=0,
        seconds=0.0,
        log_dir=histories[0].directory,
        several=len(histories) > 1,
    )
    return with_failures(report, blamed, tuple(_who(event) for _, _, event in exits if event["code"] == 0))


def _last_round(history: NodeHistory) -> tuple[Json, ...]:
    rounds = [number for number, event in enumerate(history.events) if event["event"] == "round_started"]
    return history.events[rounds[-1] :] if rounds else history.events


def _who(event: Json) -> tuple[str, int]:
    return str(event.get("role", TRAINER)), int(event["rank"])


def _failed(history: NodeHistory, round_: tuple[Json, ...], event: Json) -> FailedWorker:
    role, rank = _who(event)
    starts = (one for one in round_ if one["event"] == "worker_started" and _who(one) == (role, rank))
    start = next(starts, {"pid": 0, "monotonic": event["monotonic"]})
    logs = _logs(f"{history.directory}/{log_stem(role)}.{rank}", parse_time(round_[0].get("time")))
    failed = FailedWorker(
        rank=rank,
        node=history.node,
        pid=start["pid"],
        code=event["code"],
        ran=max(0.0, event["monotonic"] - start["monotonic"]),
        log=next(iter(logs), ""),
        role=role,
        attempt=round_[0]["attempt"] if round_[0]["event"] == "round_started" else 0,
        at=parse_time(event.get("time")),
    )
    return diagnosed(failed, last_output(list(logs.values()), Evidence(failed.code)))


def _logs(combined: str, began: float) -> dict[str, list[str]]:
    """A worker's output in the last round by file. With -r and -t each stream has its own file. Files that an earlier
    job left are skipped, also those with more lines after their header than are read."""
    found = {}
    for path in (f"{combined}.err", combined, f"{combined}.out"):
        lines = read_tail(path, 0)
        begins = [number for number, line in enumerate(lines) if line.startswith(ROUND_HEADER)]
        if begins or (lines and _changed_at(path) > began - SKEW):
            clock = lines[begins[-1]].rpartition(", ")[2] if begins else ""
            found[path] = clock, lines[begins[-1] + 1 if begins else 0 :]
    newest = max((clock for clock, _ in found.values()), default="")
    return {path: lines for path, (clock, lines) in found.items() if clock in ("", newest)}


def _changed_at(path: str) -> float:
    try:
        return os.path.getmtime(path)
    except OSError:
        return 0.0
