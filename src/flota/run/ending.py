"""How the job ended, put together: the supervisor's verdict, what was seen of each worker, and what it said last."""

from __future__ import annotations

import os
import time

from flota.frameworks.torch import error_file
from flota.job.report import NOT_STARTED, SHEPHERD_LOST, SIGNALLED, FailedWorker, Failure, Report, Verdict
from flota.job.roster import Roster
from flota.job.spec import JobSpec
from flota.logs.tail import last_lines, last_traceback, read_tail, shorten
from flota.run.start import Started
from flota.supervise.blame import ending_in_words
from flota.supervise.events import Event, StartFailed, WorkerExited, WorkerStarted

SAID_LINES = 11


class Ending:
    """Keeps of the last round what the report needs."""

    def __init__(self, spec: JobSpec, began: float) -> None:
        self.spec = spec
        self.began = began
        self.rounds = 0
        self.pids: dict[int, int] = {}
        self.errors: dict[int, str] = {}
        self.stopped: set[int] = set()
        self.ignored: list[tuple[str, int]] = []

    def begin_round(self) -> None:
        self.rounds += 1
        self.pids = {}
        self.errors = {}
        self.stopped = set()
        self.ignored = []

    def note(self, event: Event) -> None:
        if isinstance(event, WorkerStarted):
            self.pids[event.worker] = event.pid
        elif isinstance(event, StartFailed):
            self.errors[event.worker] = os.strerror(event.errno)
        elif isinstance(event, WorkerExited) and event.told:
            self.stopped.add(event.worker)

    def report(self, started: Started | None, verdict: Verdict) -> Report:
        """None: no round has begun."""
        return Report(
            job_id=self.spec.job_id,
            verdict=verdict,
            sizes=sizes_of(self.spec, started.roster) if started else {},
            rounds=self.rounds,
            seconds=time.monotonic() - self.began,
            log_dir=self.spec.log.directory,
            failed=tuple(self.failed(failure, started) for failure in verdict.failures) if started else (),
            stopped=self.stopped_workers(started) if started else (),
            ignored=tuple(self.ignored),
        )

    def stopped_workers(self, started: Started) -> tuple[tuple[str, int], ...]:
        workers = [started.plans[worker].worker for worker in sorted(self.stopped)]
        return tuple((worker.name, worker.rank) for worker in workers)

    def failed(self, failure: Failure, started: Started) -> FailedWorker:
        if failure.cause == SHEPHERD_LOST:
            node = started.roster.seats[started.seat].node
            return FailedWorker(
                -1, -1, node, 0, failure.code, failure.cause, ending_in_words(failure.code), 0.0, "", ()
            )
        worker = started.plans[failure.worker].worker
        return FailedWorker(
            rank=worker.rank,
            local_rank=worker.local_rank,
            node=started.roster.seats[worker.seat].node,
            pid=self.pids.get(failure.worker, 0),
            code=failure.code,
            cause=failure.cause,
            ending=ending_in_words(failure.code),
            ran=failure.ran,
            log="" if self.spec.interactive else worker.stderr,
            said=tuple(self._said(failure, started)),
            role=worker.name,
            final=failure.final,
        )

    def _said(self, failure: Failure, started: Started) -> list[str]:
        """What was recorded knows best; then the last traceback in the log; then its last lines."""
        if failure.cause == NOT_STARTED:
            return [f"{self.errors[failure.worker]}: {started.plans[failure.worker].worker.argv[0]}"]
        worker = started.plans[failure.worker].worker
        recorded = recorded_traceback(error_file(self.spec, worker))
        if recorded:
            return shorten(recorded, SAID_LINES)
        begins = {path: end for path, (_, end) in started.marks.items()}
        begins |= {log.path: 0 for log in started.rotating if log.rotated}
        tails = [read_tail(path, begins[path]) for path in reversed(worker.logs) if path in begins]
        if failure.cause != SIGNALLED:
            for tail in tails:
                traceback = last_traceback(tail)
                if traceback:
                    return shorten(traceback, SAID_LINES)
        return next(filter(None, (last_lines(tail, SAID_LINES - 3) for tail in tails)), [])


def sizes_of(spec: JobSpec, roster: Roster) -> dict[str, int]:
    """How many workers the job has, by the names of their roles."""
    sizes: dict[str, int] = {}
    for number, role in enumerate(spec.parts):
        sizes[role.name] = sizes.get(role.name, 0) + roster.size(number)
    return sizes


def recorded_traceback(path: str) -> list[str]:
    """What a script that uses flota.record or torch's @record has written, if anything."""
    import json

    try:
        with open(path) as file:
            message = json.load(file)["message"]
        text = message if isinstance(message, str) else message["extraInfo"]["py_callstack"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return str(text).rstrip().split("\n")
