"""A finished job, as the page sees it: from its log directories."""

from __future__ import annotations

import os
import threading
from typing import Any

import msgspec
from msgspec.structs import replace

from flota.control.client import JobAnswer
from flota.control.status import VERSION, JobStatus, NodeStatus, RankStatus, RestartStatus
from flota.dashboard.curves import curves_of
from flota.dashboard.folding import clean_lines, fold
from flota.dashboard.job_source import LOG_PART, NotThere, rank_name, read_from, tail_size
from flota.dashboard.metrics import JobCounters
from flota.dashboard.node_events import replay
from flota.dashboard.snapshot import take_snapshot
from flota.dashboard.timeline import timeline_of
from flota.errors import NoReport
from flota.failures.report_from_logs import NodeHistory, find_histories, reconstruct_report
from flota.failures.report_text import failure_report
from flota.job.printable import printable
from flota.job.report import STOPPED, SUCCEEDED, Report
from flota.job.roles import TRAINER, log_stem
from flota.ledger.ledger import Ledger, ledger_as_dict
from flota.ledger.read_logs import find_nodes, ledger_of
from flota.run.job_messages import stopped_message, success_message

Json = dict[str, Any]


class FinishedJob:
    """Raises NoReport if the directories have no job."""

    def __init__(self, paths: list[str]) -> None:
        histories = find_histories(paths)
        if not histories:
            raise NoReport(paths[0] if paths else "")
        reports = [history.report for history in histories if history.report]
        report = next((one for one in reports if one.final), None) or next(iter(reports), None)
        self._report = report or reconstruct_report(histories)
        self._killed = report is None or not report.final
        nodes = find_nodes(paths)
        self._nodes = nodes or histories
        self._ranks = find_ranks(nodes)
        events = [list(node.events) for node in nodes]
        self._timeline = timeline_of(events)
        self._curves = curves_of(events).as_dict()
        found = ledger_of(nodes)
        self._snapshot = self._make_snapshot(found[1] if found else None)
        self._encoded = msgspec.json.encode(self._snapshot)

    def _make_snapshot(self, ledger: Ledger | None) -> Json:
        report = self._report
        job = JobStatus(
            VERSION,
            printable(report.job_id),
            "killed" if self._killed else report.verdict.kind,
            round=max((one["round"] for one in self._timeline["rounds"]), default=0),
            attempt=report.verdict.attempt,
            began=report.began or self._timeline["began"],
            now=(report.began + report.seconds) or self._timeline["ended"],
            world_size=report.workers or len(self._ranks),
            log_dir=os.path.abspath(self._nodes[0].directory),
            restarts=tuple(RestartStatus(*one) for one in report.restarts),
        )
        ranks = {seat: [rank for at, rank in self._ranks.values() if at == seat] for seat in range(len(self._nodes))}
        nodes = [
            NodeStatus(one.node, 0, seat, state="", ranks=tuple(ranks[seat])) for seat, one in enumerate(self._nodes)
        ]
        snapshot = take_snapshot(JobAnswer(job, tuple(nodes)), {}, 0.0)
        return {
            **snapshot,
            "live": False,
            "job": {
                **snapshot["job"],
                "exit_code": None if self._killed else report.exit_code,
                "spares": list(report.spares),
            },
            "ledger": ledger_for_page(ledger) if ledger else None,
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

    def counters(self) -> JobCounters:
        counters = JobCounters()
        counters.note_restarts(self._snapshot["job"]["restarts"])
        counters.joined = len(self._nodes)
        counters.lost = sum(len(one.lost) for one in self._report.restarts)
        return counters

    def curves(self) -> Json:
        return self._curves

    def timeline(self) -> Json:
        return self._timeline

    def log_part(self, role: str, rank: int, file: int, offset: int) -> tuple[int, bytes]:
        logs = self._ranks[role, rank][1].logs if (role, rank) in self._ranks else ()
        if not 0 <= file < len(logs):
            raise NotThere(f"the job had no {role} {rank}, or it has no such log")
        return read_from(logs[file], offset, LOG_PART)

    def tails(self) -> list[tuple[str, bytes]]:
        size, found = tail_size(len(self._ranks)), []
        for (role, rank), (_, status) in self._ranks.items():
            try:
                found.append((rank_name(role, rank), b"".join(read_from(path, -size, size)[1] for path in status.logs)))
            except NotThere:
                continue
        return found

    def stacks(self) -> list[str]:
        raise NotThere("the job has ended: there are no stacks")

    def act(self, verb: str, seat: int) -> str:  # noqa: ARG002  as it is called
        raise NotThere("the job has ended")


def find_ranks(nodes: list[NodeHistory]) -> dict[tuple[str, int], tuple[int, RankStatus]]:
    """The ranks of the last round, and the numbers of their nodes."""
    known = {
        (seat, number, one.role, one.rank): one
        for seat, node in enumerate(nodes)
        for _, number, one in replay(list(node.events))
    }
    last = max((number for _, number, _, _ in known), default=0)
    found = {
        (role, rank): (seat, replace(one, logs=find_logs(nodes[seat].directory, role, rank)))
        for (seat, number, role, rank), one in known.items()
        if number == last
    }
    return dict(sorted(found.items(), key=lambda item: (item[0][0] != TRAINER, item[0])))


def find_logs(directory: str, role: str, rank: int) -> tuple[str, ...]:
    """One file, or one for each stream that has its own."""
    stem = f"{directory}/{log_stem(role)}.{rank}"
    found = tuple(path for path in (stem, f"{stem}.out", f"{stem}.err") if os.path.exists(path))
    return found or (stem,)


def ledger_for_page(ledger: Ledger) -> Json:
    """Without the row of each rank."""
    return {name: value for name, value in ledger_as_dict(ledger).items() if name != "ranks"}


def _report_lines(report: Report, *, killed: bool) -> list[str]:
    if killed:
        before = failure_report(report, verbose=True) if report.failed else []
        return ["flota itself was killed, or is still running: there is no report", *before]
    if report.verdict.kind == SUCCEEDED:
        return [success_message(report)]
    if report.verdict.kind == STOPPED:
        return [stopped_message(report)]
    return failure_report(report, verbose=True) if report.failed else [report.verdict.reason or report.verdict.kind]
