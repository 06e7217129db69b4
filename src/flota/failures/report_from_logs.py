"""The report of a finished job once more, from what its nodes have left in their log directories."""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import Any

from flota.failures.blame import in_order_of_blame
from flota.failures.diagnosis import Evidence, diagnosed
from flota.failures.last_words import last_words, read_tail
from flota.job.report import FAILED, FailedWorker, Report, Verdict, exit_code_of_all, report_from_dict, with_failures
from flota.job.roles import TRAINER, log_stem
from flota.logs.directory import ROUND_HEADER
from flota.logs.find_runs import run_directories
from flota.values import NamedTuple

Json = dict[str, Any]
SKEW = 10.0  # seconds by which the clocks of one job's machines may differ


class Telling(NamedTuple):
    """What one node has left: the report of its last job, or only the events of one that never came to a report.
    `began` and `ended` are by its own clock; of a job that is not known to have ended, the latter is its last event."""

    node: str
    directory: str
    report: Report | None
    events: tuple[Json, ...] = ()
    began: float = 0.0
    ended: float = 0.0

    @property
    def several(self) -> bool:
        return self.report.several if self.report else any("nodes" in event for event in self.events)


def find_tellings(paths: list[str]) -> list[Telling]:
    """All of the last job that is in these directories, in their latest runs, or in directories below them."""
    found = [telling for path in paths for directory in run_directories(path) for telling in _read(directory)]
    last = of_last_job(found)
    # A report.json says nothing that the events of a node do not say, where there are some.
    is_told = any(telling.node and telling.report for telling in last)
    return [telling for telling in found if telling in last and (telling.node or not is_told)]


def of_last_job(found: list[Telling]) -> list[Telling]:
    """Those that were under way at the same time as the last one: whoever has taken part in an earlier job alone, such
    as a container of another name, has left its own in the same place."""
    began = max((one.ended for one in found), default=0.0)
    last = []
    for one in sorted(found, key=lambda one: one.ended, reverse=True):
        if one.ended + (SKEW if one.several else 0.0) < began:
            break
        began = min(began, one.began)
        last.append(one)
    return last


def _read(directory: str) -> list[Telling]:
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    tellings = []
    for name in names:
        events = _last_job(f"{directory}/{name}") if name.startswith("events.") and name.endswith(".jsonl") else []
        if events:
            last = events[-1]
            report = _report(last.get("report")) if last["event"] == "job_ended" else None
            times = [_seconds(event.get("time")) for event in (events[0], last)]
            tellings.append(Telling(str(last.get("node", "")), directory, report, tuple(events), *times))
    alone = _report(_parse(_text_of(f"{directory}/report.json")))
    if alone and all(telling.report != alone for telling in tellings):
        ended_at = os.path.getmtime(f"{directory}/report.json")
        tellings.append(Telling("", directory, alone, (), ended_at - alone.seconds, ended_at))
    return tellings


def _report(told: Json | None) -> Report | None:
    """None where there is none, and of something else that has its name."""
    try:
        return report_from_dict(told) if told else None
    except (TypeError, ValueError, AttributeError):
        return None


def _last_job(path: str) -> list[Json]:
    """The events of the last job; the last line may be half of one."""
    events = [event for line in _text_of(path).splitlines() if (event := _parse(line)) and _is_event(event)]
    starts = [number for number, event in enumerate(events) if event["event"] == "job_started"]
    return events[starts[-1] if starts else 0 :]


def _is_event(told: Json) -> bool:
    """With all that is read of it: what others have written into the file is passed over."""
    numbers = {
        "job_started": ("pid",),
        "round_started": ("attempt",),
        "worker_started": ("rank", "pid", "monotonic"),
        "worker_exited": ("rank", "code", "monotonic"),
    }
    name = told.get("event")
    return isinstance(name, str) and all(isinstance(told.get(key), (int, float)) for key in numbers.get(name, ()))


def _text_of(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _parse(text: str) -> Json | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


# Where flota itself has died, or the machine.


def piece_together(tellings: list[Telling]) -> Report:
    """A report from the events and logs of nodes that left none. Their clocks are taken as they are."""
    events = [event for telling in tellings for event in telling.events]
    sizes = [int(event.get("world_size") or 0) for event in events if event["event"] == "job_started"]
    rounds = [(telling, _last_round(telling)) for telling in tellings]
    exits = [
        (telling, round_, event) for telling, round_ in rounds for event in round_ if event["event"] == "worker_exited"
    ]
    found = [_failed(*one) for one in exits if one[2]["code"] != 0 and not one[2].get("asked_to_stop")]
    blamed = tuple(in_order_of_blame(found))
    report = Report(
        job_id=str(events[0].get("job_id", "")),
        verdict=Verdict(FAILED, exit_code_of_all(blamed), max((one.attempt for one in found), default=0)),
        sizes={TRAINER: max(sizes, default=0)},
        rounds=0,
        seconds=0.0,
        log_dir=tellings[0].directory,
        several=len(tellings) > 1,
    )
    return with_failures(report, blamed, tuple(_who(event) for _, _, event in exits if event["code"] == 0))


def _last_round(telling: Telling) -> tuple[Json, ...]:
    rounds = [number for number, event in enumerate(telling.events) if event["event"] == "round_started"]
    return telling.events[rounds[-1] :] if rounds else telling.events


def _who(event: Json) -> tuple[str, int]:
    return str(event.get("role", TRAINER)), int(event["rank"])


def _failed(telling: Telling, round_: tuple[Json, ...], event: Json) -> FailedWorker:
    role, rank = _who(event)
    starts = (one for one in round_ if one["event"] == "worker_started" and _who(one) == (role, rank))
    start = next(starts, {"pid": 0, "monotonic": event["monotonic"]})
    logs = _logs(f"{telling.directory}/{log_stem(role)}.{rank}", _seconds(round_[0].get("time")))
    failed = FailedWorker(
        rank=rank,
        node=telling.node,
        pid=start["pid"],
        code=event["code"],
        ran=max(0.0, event["monotonic"] - start["monotonic"]),
        log=next(iter(logs), ""),
        role=role,
        attempt=round_[0].get("attempt", 0),
        at=_seconds(event.get("time")),
    )
    return diagnosed(failed, last_words(list(logs.values()), Evidence(failed.code)))


def _logs(both: str, began: float) -> dict[str, list[str]]:
    """What a worker has said in the round, by file: with -r and -t its streams have files of their own. An earlier
    job may have left the other kind there, with more lines after its header than are read."""
    found = {}
    for path in (f"{both}.err", both, f"{both}.out"):
        lines = read_tail(path, 0)
        begins = [number for number, line in enumerate(lines) if line.startswith(ROUND_HEADER)]
        if begins or (lines and os.path.getmtime(path) > began - SKEW):
            clock = lines[begins[-1]].rpartition(", ")[2] if begins else ""
            found[path] = clock, lines[begins[-1] + 1 if begins else 0 :]
    newest = max((clock for clock, _ in found.values()), default="")
    return {path: lines for path, (clock, lines) in found.items() if clock in ("", newest)}


def _seconds(clock: object) -> float:
    try:
        return datetime.fromisoformat(str(clock)).timestamp()
    except ValueError:
        return 0.0
