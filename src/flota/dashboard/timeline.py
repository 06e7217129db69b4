"""The rounds of a job, and what happened in them, from the events of its nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flota.humanize import ending_in_words
from flota.job.roles import TRAINER, label
from flota.logs.parse_events import is_count, is_integer, parse_time

Json = dict[str, Any]
MOST_ROUNDS, MOST_FAILURES, MOST_MARKS = 400, 16, 200  # that are kept: the latest rounds, the first failures of each


class NodeTimeline:
    """One node's events of its last job."""

    def __init__(self, events: Iterable[Json] = ()) -> None:
        self.rounds: dict[int, Json] = {}
        self.marks: list[Json] = []
        self.began = self.ended = 0.0
        for event in events:
            self.note(event)

    def note(self, event: Json) -> None:
        handler = HANDLERS.get(event["event"])
        if handler and (at := parse_time(event.get("time"))):
            handler(self, event, at)

    def on_job_started(self, _: Json, at: float) -> None:
        self.began = at

    def on_round_started(self, event: Json, at: float) -> None:
        if not is_count(event.get("round")):
            return
        self._end_round(at)
        attempt, nodes = event.get("attempt"), event.get("nodes")
        self.rounds[event["round"]] = {
            "round": event["round"],
            "attempt": attempt if is_count(attempt) else 0,
            "nodes": nodes if is_count(nodes) else 1,
            "began": at,
            "ended": None,
            "failed": 0,
            "failures": [],
        }
        if len(self.rounds) > MOST_ROUNDS:
            del self.rounds[next(iter(self.rounds))]

    def _end_round(self, at: float) -> None:
        if self.rounds and self._current["ended"] is None:
            self._current["ended"] = max(self._current["began"], min(at, self._current.get("exited", at)))

    @property
    def _current(self) -> Json:
        return next(reversed(self.rounds.values()))

    def on_worker_exited(self, event: Json, at: float) -> None:
        if not self.rounds or not is_count(event.get("rank")) or not is_integer(event.get("code")):
            return
        self._current["exited"] = at
        if event["code"] and event.get("asked_to_stop") is not True:
            self._add_failure(event, at, ending_in_words(event["code"]))

    def on_start_failed(self, event: Json, at: float) -> None:
        if self.rounds and is_count(event.get("rank")):
            self._add_failure(event, at, f"could not be started: {event.get('error')}")

    def _add_failure(self, event: Json, at: float, words: str) -> None:
        self._current["failed"] += 1
        if len(self._current["failures"]) < MOST_FAILURES:
            who = label(str(event.get("role", TRAINER)), event["rank"])
            self._current["failures"].append({"at": at, "node": str(event.get("node", "")), "text": f"{who} {words}"})

    def on_mark(self, event: Json, at: float) -> None:
        suspects = event.get("suspects")
        ranks = ", ".join(map(str, suspects)) if isinstance(suspects, list) else ""
        details = {
            "hang_found": f"hang found; suspects: {ranks}" if ranks else "hang found",
            "stop_requested": f"stop requested: {event.get('signal', '')}",
            "shepherd_lost": "flota's shepherd process died",
        }
        self._add_mark(at, str(event["event"]), details.get(str(event["event"]), ""))

    def on_straggler(self, event: Json, at: float) -> None:
        who = label(str(event.get("role", TRAINER)), event["rank"]) if is_count(event.get("rank")) else "a rank"
        self._add_mark(at, "straggler", f"{who} {'is no longer slow' if event.get('recovered') is True else 'is slow'}")

    def on_job_ended(self, event: Json, at: float) -> None:
        self._end_round(at)
        self.ended = at
        self._add_mark(at, "job_ended", f"job {event.get('verdict', 'ended')}")

    def _add_mark(self, at: float, kind: str, text: str) -> None:
        self.marks = [*self.marks, {"at": at, "kind": kind, "text": text}][-MOST_MARKS:]


HANDLERS = {
    "job_started": NodeTimeline.on_job_started,
    "round_started": NodeTimeline.on_round_started,
    "worker_exited": NodeTimeline.on_worker_exited,
    "start_failed": NodeTimeline.on_start_failed,
    "hang_found": NodeTimeline.on_mark,
    "stop_requested": NodeTimeline.on_mark,
    "shepherd_lost": NodeTimeline.on_mark,
    "straggler": NodeTimeline.on_straggler,
    "job_ended": NodeTimeline.on_job_ended,
}


def timeline_of(nodes: Iterable[Iterable[Json]]) -> Json:
    """From the events of all nodes: a round lasts from its start on the first node to its end on the last one."""
    parts = [NodeTimeline(events) for events in nodes]
    rounds: dict[int, Json] = {}
    for part in parts:
        for number, one in part.rounds.items():
            known = rounds.setdefault(number, {**one, "failures": [], "failed": 0, "ended": []})
            known["began"] = min(known["began"], one["began"])
            known["ended"].append(one["ended"])
            known["failed"] += one["failed"]
            known["failures"] = sorted([*known["failures"], *one["failures"]], key=_at)[:MOST_FAILURES]
    _end_rounds([rounds[number] for number in sorted(rounds)])
    marks = {(one["kind"], one["text"]): one for part in parts for one in part.marks}
    return {
        "began": min((part.began for part in parts if part.began), default=0.0),
        "ended": max((part.ended for part in parts), default=0.0),
        "rounds": [rounds[number] for number in sorted(rounds)][-MOST_ROUNDS:],
        "marks": sorted(marks.values(), key=_at)[-MOST_MARKS:],
    }


def _end_rounds(rounds: list[Json]) -> None:
    """A round ends on its last node. A node that was lost has no end of it; at the latest the next round has begun."""
    for one, after in zip(rounds, [*rounds[1:], None], strict=False):
        ends = [end for end in one["ended"] if end is not None]
        if after:
            one["ended"] = min(max(ends, default=after["began"]), after["began"])
        else:
            one["ended"] = max(ends) if len(ends) == len(one["ended"]) else None


def _at(fact: Json) -> float:
    return float(fact["at"])
