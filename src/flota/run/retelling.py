"""The report of a finished job once more, from what its nodes have left in their log directories."""

from __future__ import annotations

import os
from datetime import datetime

from flota.job.causes import Evidence, diagnose, suffers
from flota.job.report import FAILED, FailedWorker, Report, Verdict, exit_code_of_all, report_from_dict, with_failures
from flota.job.roles import TRAINER, log_stem
from flota.logs.files import MARK
from flota.logs.tail import last_words, read_tail
from flota.supervise.blame import ending_in_words, in_order_of_blame
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]


class Telling(NamedTuple):
    """What one node has left: the report of its last job, or only the events of one that never came to a report."""

    node: str
    directory: str
    report: Report | None
    events: tuple[Json, ...] = ()


def find_tellings(paths: list[str]) -> list[Telling]:
    """All that is in these directories, or in directories below them, as when those of several nodes were put side by
    side."""
    found = [telling for path in paths for directory in _directories(path) for telling in _read(directory)]
    # A report.json says nothing that the events of a node do not say, where there are some.
    named = [telling for telling in found if telling.node]
    return named or found


def _directories(path: str) -> list[str]:
    below = sorted(entry.path for entry in os.scandir(path) if entry.is_dir()) if os.path.isdir(path) else []
    return [path, *(place for one in below for place in (one, f"{one}/log"))]


def _read(directory: str) -> list[Telling]:
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    tellings = []
    for name in names:
        if name.startswith("events.") and name.endswith(".jsonl"):
            events = _last_job(f"{directory}/{name}")
            if events:
                node = str(events[-1].get("node", ""))
                ended = events[-1].get("report") if events[-1].get("event") == "job_ended" else None
                tellings.append(Telling(node, directory, report_from_dict(ended) if ended else None, tuple(events)))
    if "report.json" in names and not any(telling.report for telling in tellings):
        report = _parse(_text_of(f"{directory}/report.json"))
        tellings += [Telling("", directory, report_from_dict(report))] if report else []
    return tellings


def _last_job(path: str) -> list[Json]:
    """The events of the last job; the last line may be half of one."""
    events = [event for line in _text_of(path).splitlines() if (event := _parse(line))]
    starts = [number for number, event in enumerate(events) if event.get("event") == "job_started"]
    return events[starts[-1] if starts else 0 :]


def _text_of(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _parse(text: str) -> Json | None:
    import json

    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


# Where flota itself has died, or the machine.


def piece_together(tellings: list[Telling]) -> Report:
    """A report from the events and logs of nodes that left none. Their clocks are taken as they are."""
    found = [failed for telling in tellings for failed in _failures(telling)]
    first = next(event for telling in tellings for event in telling.events)
    starts = [event for telling in tellings for event in telling.events if event["event"] == "job_started"]
    size = max((int(event.get("world_size", 0)) for event in starts), default=0)
    blamed = tuple(in_order_of_blame(found))
    code = exit_code_of_all((one.code, one.told) for one in blamed)
    report = Report(
        job_id=str(first.get("job_id", "")),
        verdict=Verdict(FAILED, code, 0),
        sizes={TRAINER: size},
        rounds=0,
        seconds=0.0,
        log_dir=tellings[0].directory,
        several=len(tellings) > 1,
    )
    ended = tuple(
        (str(event.get("role", TRAINER)), int(event["rank"]))
        for telling in tellings
        for event in _exits(telling)
        if event["code"] == 0
    )
    return with_failures(report, blamed, ended)


def _exits(telling: Telling) -> list[Json]:
    """Of the last round."""
    rounds = [number for number, event in enumerate(telling.events) if event["event"] == "round_started"]
    last = telling.events[rounds[-1] :] if len(rounds) > 1 else telling.events
    return [event for event in last if event["event"] == "worker_exited"]


def _failures(telling: Telling) -> list[FailedWorker]:
    pids = {event["rank"]: event["pid"] for event in telling.events if event["event"] == "worker_started"}
    return [
        _failed(telling, event, pids.get(event["rank"], 0))
        for event in _exits(telling)
        if event["code"] != 0 and not event["told_to_stop"]
    ]


def _failed(telling: Telling, event: Json, pid: int) -> FailedWorker:
    role, rank, code = str(event.get("role", TRAINER)), int(event["rank"]), int(event["code"])
    log = f"{telling.directory}/{log_stem(role)}.{rank}"
    lines = read_tail(log, 0)
    begins = [number for number, line in enumerate(lines) if line.startswith(MARK)]
    lines = lines[begins[-1] + 1 :] if begins else lines
    words = last_words([lines], code)
    evidence = words.added_to(Evidence(code))
    diagnosis = diagnose(evidence)
    return FailedWorker(
        rank=rank,
        local_rank=-1,
        node=telling.node,
        pid=pid,
        code=code,
        cause=diagnosis.cause,
        ending=ending_in_words(code, diagnosis.words),
        ran=0.0,
        log=log,
        said=words.said,
        role=role,
        at=datetime.fromisoformat(event["time"]).timestamp(),
        suffered=suffers(evidence),
        exception=diagnosis.exception,
        hint=diagnosis.hint,
    )
