"""The logs of a finished job, from the log directories of its nodes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import partial

from flota.failures.report_from_logs import SKEW, NodeHistory, find_histories
from flota.job.printable import printable
from flota.job.roles import TRAINER, log_stem
from flota.logs.directory import ROUND_HEADER, read_end
from flota.logs.find_runs import run_directories
from flota.logs.log_parts import MOST_READ, LogPart, PartReader, parts_of, read_part
from flota.logs.log_spans import (
    BEGINNING,
    LogHistory,
    Mark,
    align,
    clock_difference,
    job_histories,
    joined,
    last_job,
    spans_of,
)
from flota.logs.log_times import LARGEST, times_file
from flota.logs.merge_lines import Speaker
from flota.logs.parse_events import is_count, parse_time
from flota.logs.rank_log import RankLog

LOG_NAME = re.compile(r"(\w+)log\.(\d+)(?:\.out|\.err)?")
HEADER = re.compile(re.escape(ROUND_HEADER.encode()) + rb"job [^\n]*, round (\d{1,9}), ")
LONGEST_HEADER = 4 << 10  # bytes

Rounds = dict[int, float]  # by number: when a node started them


def find_finished(paths: list[str]) -> tuple[list[RankLog], float]:
    """The logs of the last job in these directories, by node and rank, and the time of its last event."""
    histories = find_histories(paths) or [
        NodeHistory("", directory, None) for path in paths for directory in run_directories(path)
    ]
    histories.sort(key=lambda history: min(_workers(history), default=(2, "", 0)))
    reference = _rounds(histories[0]) if histories else {}
    ahead = [clock_difference(_rounds(history), reference) for history in histories]
    logs: dict[str, RankLog] = {}
    reader = PartReader()
    for directory in dict.fromkeys(history.directory for history in histories):
        nodes = [number for number, history in enumerate(histories) if history.directory == directory]
        noted = joined([_noted(histories[number], ahead[number]) for number in nodes])
        for number in nodes:
            for speaker, path in _files(histories[number], number, noted):
                last = histories[number].ended - ahead[number]
                log = RankLog(speaker, os.path.basename(path), partial(reader.read, path), parts_of(path), BEGINNING)
                _divide(log, path, noted.get(log.name), _rounds(histories[number]), last)
                logs[path] = log
    ended = max((history.ended - clock for history, clock in zip(histories, ahead, strict=True)), default=0.0)
    return list(logs.values()), ended


def _workers(history: NodeHistory) -> list[tuple[int, str, int]]:
    """The roles and ranks of a node, trainers first. Without events: those of all logs in its directory."""
    started = {
        (str(event.get("role", TRAINER)), int(event["rank"]))
        for event in history.events
        if event["event"] == "worker_started"
    }
    if not started:
        try:
            names = os.listdir(history.directory)
        except OSError:
            names = []
        found = [match for name in names if (match := LOG_NAME.fullmatch(name))]
        started = {(TRAINER if match[1] == "worker" else match[1], int(match[2])) for match in found}
    return sorted((int(role != TRAINER), role, rank) for role, rank in started)


def _rounds(history: NodeHistory) -> Rounds:
    started = [event for event in history.events if event["event"] == "round_started" and is_count(event.get("round"))]
    return {event["round"]: parse_time(event.get("time")) for event in started}


def _noted(history: NodeHistory, ahead: float) -> dict[str, LogHistory]:
    """What the node has noted about its logs, by the clock of the first node."""
    text = read_end(times_file(history.directory, history.node), 4 * LARGEST)
    pids = [event["pid"] for event in history.events if event["event"] == "job_started"]
    return job_histories(text, history.began, pids[-1] if pids else 0, SKEW, ahead)


def _files(history: NodeHistory, number: int, noted: Iterable[str]) -> Iterator[tuple[Speaker, str]]:
    """The logs of the node's ranks, without files that an earlier job left: with -r and -t logs have other names."""
    host = printable(history.node)
    for _, role, rank in _workers(history):
        for suffix in ("", ".out", ".err"):
            path = f"{history.directory}/{log_stem(role)}.{rank}{suffix}"
            if os.path.basename(path) in noted if noted else _changed_since(path, history.began - SKEW):
                yield Speaker(role, rank, host, number), path


def _changed_since(path: str, began: float) -> bool:
    try:
        return os.path.getmtime(path) >= began
    except OSError:
        return False


def _divide(log: RankLog, path: str, noted: LogHistory | None, rounds: Rounds, last: float) -> None:
    """Find the beginning of the job in a log, and its spans. Without notes, search for the headers of the rounds."""
    if noted:
        noted = align(noted, log.parts)
        marks, starts = noted.marks, noted.rounds
    else:
        headers = last_job([one for part in log.parts for one in _headers(path, part)])
        marks = starts = tuple(Mark(inode, offset, rounds.get(number, 0.0)) for inode, offset, number in headers)
    log.place = starts[0][:2] if starts else BEGINNING
    log.spans = spans_of(log.parts, log.place, marks, last, marks_begin=not noted)


def _headers(path: str, part: LogPart) -> Iterator[tuple[int, int, int]]:
    """The rounds that begin in a file: its inode, the offset of the header, and the number of the round."""
    offset, overlap = 0, b""
    while data := read_part(path, part.inode, offset, 4 * MOST_READ):
        text = overlap + data
        for match in HEADER.finditer(text):
            at = match.start()
            if at == 0 or text[at - 1 : at] == b"\n":
                yield part.inode, offset - len(overlap) + at, int(match[1])
        offset += len(data)
        tail = text[-LONGEST_HEADER:]
        begun = tail.rfind(b"\n") + 1
        overlap = tail[begun:] if begun else tail
