"""A finished job, as the page sees it: from its log directories."""

from __future__ import annotations

import os
import threading
from typing import Any

import msgspec

from flota.control.status import DONE, FAILED, RUNNING, STOPPED
from flota.dashboard.file_part import read_part
from flota.dashboard.folding import clean_lines, fold
from flota.dashboard.job_source import NotThere
from flota.dashboard.timeline import NodeTimeline, merge
from flota.errors import NoReport
from flota.failures.report_from_logs import NodeHistory, find_histories, reconstruct_report
from flota.failures.report_text import failure_report
from flota.job.printable import printable
from flota.job.report import STOPPED as WAS_STOPPED
from flota.job.report import SUCCEEDED, Report
from flota.job.roles import TRAINER, log_stem
from flota.ledger.ledger import ledger_as_dict
from flota.ledger.read_logs import find_ledger
from flota.logs.parse_events import is_count, is_integer
from flota.run.job_messages import stopped_message, success_message

Json = dict[str, Any]

LOG_PART = 256 << 10  # bytes
ALL_TAILS, LEAST_TAIL = 4 << 20, 2 << 10  # bytes of all logs together, and at least of each


class FinishedJob:
    """Raises NoReport if the directories have no job."""

    def __init__(self, paths: list[str]) -> None:
        self._histories = find_histories(paths)
        if not self._histories:
            raise NoReport(paths[0] if paths else "")
        reports = [history.report for history in self._histories if history.report]
        report = next((one for one in reports if one.final), None) or next(iter(reports), None)
        self._report = report or reconstruct_report(self._histories)
        self._killed = report is None or not report.final
        self._ranks = self._find_ranks()
        self._timeline = merge(map(_timeline_of, self._histories))
        self._snapshot = self._make_snapshot(paths)
        self._encoded = msgspec.json.encode(self._snapshot)

    def _find_ranks(self) -> dict[tuple[str, int], Json]:
        """The ranks of the last round, from the events of their nodes."""
        ranks: dict[tuple[str, int], Json] = {}
        for seat, history in enumerate(self._histories):
            for event in history.events:
                if event["event"] == "round_started":
                    ranks = {key: one for key, one in ranks.items() if one["seat"] != seat}
                elif event["event"] in ("worker_started", "worker_exited") and is_count(event.get("rank")):
                    key = str(event.get("role", TRAINER)), event["rank"]
                    known = ranks.setdefault(
                        key, {"seat": seat, "pid": 0, "state": RUNNING, "exit": None, "step": None}
                    )
                    known.update(_facts_of(event))
        for failed in self._report.failed:
            if (failed.role, failed.rank) in ranks and failed.step >= 0:
                ranks[failed.role, failed.rank]["step"] = failed.step
        return dict(sorted(ranks.items(), key=lambda item: (item[0][0] != TRAINER, item[0])))

    def _make_snapshot(self, paths: list[str]) -> Json:
        report, rows = self._report, self._ranks.values()
        nothing = [None] * len(rows)
        return {
            "live": False,
            "job": {
                "id": printable(report.job_id),
                "state": "killed" if self._killed else report.verdict.kind,
                "round": max((one["round"] for one in self._timeline["rounds"]), default=0),
                "attempt": report.verdict.attempt,
                "restart_limit": 0,
                "began": report.began or self._timeline["began"],
                "now": (report.began + report.seconds) or self._timeline["ended"],
                "world_size": report.workers or len(rows),
                "log_dir": os.path.abspath(self._histories[0].directory),
                "message": "",
                "command": "",
                "exit_code": None if self._killed else report.exit_code,
                "restarts": [dict(zip(one._fields, one, strict=True)) for one in report.restarts],
                "slow": [],
            },
            "nodes": [
                {"seat": seat, "host": one.node, "state": "", "ranks": sum(row["seat"] == seat for row in rows)}
                for seat, one in enumerate(self._histories)
            ],
            "missing": [],
            "ranks": {
                "role": [role for role, _ in self._ranks],
                "rank": [rank for _, rank in self._ranks],
                **{name: [one[name] for one in rows] for name in ("seat", "pid", "state", "exit", "step")},
                **dict.fromkeys(("device", "seconds", "beat", "cpu", "memory"), nothing),
            },
            "progress": {},
            "ledger": ledger_of(paths),
            "report": [printable(line) for line in _report_lines(report, killed=self._killed)],
        }

    def as_data(self) -> bytes:
        """All that the page shows, for the page as one file."""
        tails = fold((name, clean_lines(data)) for name, data in self.tails())
        facts = {"curves": self.curves(), "timeline": self._timeline, "tails": {"lines": tails}}
        return msgspec.json.encode({"snapshot": self._snapshot, **facts})

    def wait(self, known: int, seconds: float) -> tuple[int, bytes]:
        if known:
            threading.Event().wait(seconds)  # nothing will change
        return 1, self._encoded

    def newest(self) -> Json:
        return self._snapshot

    def counters(self) -> dict[str, int]:
        return {"joined": len(self._histories), "lost": 0}

    def curves(self) -> Json:
        return {"at": [], "values": {}}

    def timeline(self) -> Json:
        return self._timeline

    def log_part(self, role: str, rank: int, offset: int) -> tuple[int, bytes]:
        if (role, rank) not in self._ranks:
            raise NotThere(f"the job had no {role} {rank}")
        return self._read(role, rank, offset, LOG_PART)

    def _read(self, role: str, rank: int, offset: int, most: int) -> tuple[int, bytes]:
        directory = self._histories[self._ranks[role, rank]["seat"]].directory
        stem = f"{directory}/{log_stem(role)}.{rank}"
        path = next((one for one in (stem, f"{stem}.err", f"{stem}.out") if os.path.exists(one)), stem)
        try:
            return read_part(path, offset, most)
        except OSError as error:
            raise NotThere(f"cannot read {path}: {error.strerror}") from None

    def tails(self) -> list[tuple[str, bytes]]:
        size = max(LEAST_TAIL, min(LOG_PART, ALL_TAILS // max(1, len(self._ranks))))
        found = []
        for role, rank in self._ranks:
            try:
                found.append(
                    (str(rank) if role == TRAINER else f"{role} {rank}", self._read(role, rank, -size, size)[1])
                )
            except NotThere:
                continue
        return found

    def stacks(self) -> list[str]:
        raise NotThere("the job has ended: there are no stacks")

    def act(self, verb: str, seat: int) -> str:  # noqa: ARG002  as it is called
        raise NotThere("the job has ended")


def ledger_of(paths: list[str]) -> Json | None:
    """Where the time of all ranks went, without the row of each rank; None if that is unknown."""
    found = find_ledger(paths)
    return {name: value for name, value in ledger_as_dict(found[1]).items() if name != "ranks"} if found else None


def _facts_of(event: Json) -> Json:
    if event["event"] == "worker_started":
        return {"pid": event["pid"], "state": RUNNING, "exit": None}
    if not is_integer(event.get("code")):
        return {}
    state = STOPPED if event.get("asked_to_stop") is True else FAILED if event["code"] else DONE
    return {"state": state, "exit": event["code"]}


def _timeline_of(history: NodeHistory) -> NodeTimeline:
    timeline = NodeTimeline()
    for event in history.events:
        timeline.note(event)
    return timeline


def _report_lines(report: Report, *, killed: bool) -> list[str]:
    if killed:
        before = failure_report(report, verbose=True) if report.failed else []
        return ["flota itself was killed, or is still running: there is no report", *before]
    if report.verdict.kind == SUCCEEDED:
        return [success_message(report)]
    if report.verdict.kind == WAS_STOPPED:
        return [stopped_message(report, "")]
    return failure_report(report, verbose=True) if report.failed else [report.verdict.reason or report.verdict.kind]
