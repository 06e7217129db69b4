"""Collects what the report needs: how each worker exited, its last output, and the supervisor's verdict."""

from __future__ import annotations

import os
import time
from errno import EAGAIN

from flota.errors import PROCESS_LIMIT_HINT
from flota.failures.blame import in_order_of_blame
from flota.failures.oom import MemoryEvidence, MemoryWatch
from flota.humanize import ending_in_words
from flota.job.causes import HINTS, NOT_STARTED, is_hang
from flota.job.plan import ERROR, Worker, own_file
from flota.job.report import (
    HANG_IN_WORDS,
    MOST_RESTARTS,
    NO_STEP,
    RESTART_REQUESTED,
    BoundWorker,
    FailedWorker,
    PastRestart,
    Report,
    Verdict,
    failure_in_brief,
    with_failures,
)
from flota.job.roles import IGNORE
from flota.job.roster import Roster
from flota.job.spec import JobSpec
from flota.run.start import Started
from flota.supervise.events import Event, RoundSwept, StartFailed, WorkerExited, WorkerStarted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.failures.diagnosis import Evidence

SIGINT, SIGKILL, SIGTERM = 2, 9, 15
STOP_SIGNALS = (SIGTERM, SIGKILL, SIGINT)  # SIGINT: some scripts turn SIGTERM into Ctrl-C
MOST_DIAGNOSED = 64  # stopped workers whose logs are read for the report: some milliseconds each
CHILD_KILLED = "killed by signal: Killed"  # torch's message about a data loader's process
# Exceptions that a worker raises because it was asked to stop.
STOP_EXCEPTIONS = ("", "KeyboardInterrupt", "SystemExit", "SignalException")


class FailureEvidence:
    """Evidence from the current round. `epoch`: the difference between the time of day and the monotonic clock."""

    def __init__(self, spec: JobSpec, began: float, epoch: float = 0.0) -> None:
        self.spec = spec
        self.began = began
        self.epoch = epoch
        self.rounds = 0
        self.last: Started | None = None
        self.found: tuple[FailedWorker, ...] = ()  # of the last failed round, in order of blame
        self.restarts: list[PastRestart] = []
        self._memory: MemoryWatch | None = None
        self._reset()

    def _reset(self) -> None:
        self.pids: dict[int, int] = {}
        self.began_at: dict[int, float] = {}
        self.exits: dict[int, FailedWorker] = {}  # successful or not
        self.errors: dict[int, int] = {}  # errno, by worker that could not be started
        self.ignored: list[tuple[str, int]] = []
        self._kills: dict[int, MemoryEvidence] = {}
        # By worker: the sizes of its logs when they were last read, and the diagnosis.
        self._diagnosed: dict[int, tuple[tuple[int, ...], FailedWorker]] = {}

    def begin_round(self, started: Started) -> None:
        self.rounds += 1
        self.last = started
        self._reset()
        self.close()
        self._memory = MemoryWatch()

    def close(self) -> None:
        if self._memory:
            self._memory.close()

    def note(self, event: Event) -> None:
        if isinstance(event, WorkerStarted):
            self.pids[event.worker] = event.pid
            self.began_at[event.worker] = event.at
        elif isinstance(event, StartFailed):
            self.errors[event.worker] = event.errno
        elif isinstance(event, WorkerExited):
            ran, step = max(0.0, event.at - self.began_at.get(event.worker, event.at)), self._step(event.worker)
            ended = FailedWorker(worker=event.worker, code=event.code, ran=ran, step=step, at=event.at)
            self.exits[event.worker] = ended._replace(asked_to_stop=event.asked_to_stop)
            if event.code in (-SIGKILL, 128 + SIGKILL) and not event.asked_to_stop and self._memory:
                self._kills[event.worker] = self._memory.evidence_for(self.pids.get(event.worker, 0))

    def on_time(self, now: float) -> None:
        """Forget old kills, but keep those counted before the first failure."""
        if self._memory and not any(end.code for end in self.exits.values()):
            self._memory.forget_old_kills(now)

    def report(self, verdict: Verdict) -> Report:
        started = self.last  # None before the first round
        report = Report(
            job_id=self.spec.job_id,
            verdict=verdict,
            sizes=sizes_of(self.spec, started.roster) if started else {},
            rounds=self.rounds,
            seconds=time.monotonic() - self.began,
            log_dir=self.spec.log.directory,
            stopped=self._names([worker for worker, end in self.exits.items() if end.asked_to_stop]),
            ignored=tuple(self.ignored),
            several=self.spec.nodes is not None,
            began=self.began + self.epoch,
            restarts=tuple(self.restarts[-MOST_RESTARTS:]),
            bindings=bound_workers(started) if started and self.spec.bindings else (),
        )
        return (
            with_failures(report, self.found + self._consequences(), self.succeeded()) if verdict.failures else report
        )

    def note_restart(self, ended_round: int, *, requested: bool = False) -> None:
        """`requested`: by a user, and not after a failure."""
        reason = RESTART_REQUESTED if requested else failure_in_brief(self.found[0])
        restart = PastRestart(ended_round, time.monotonic() + self.epoch, reason, counted=not requested)
        self.restarts.append(restart)

    def succeeded(self) -> tuple[tuple[str, int], ...]:
        ends = self.exits.items()
        return self._names([worker for worker, end in ends if not end.asked_to_stop and end.code == 0])

    def _names(self, numbers: list[int]) -> tuple[tuple[str, int], ...]:
        return tuple((worker.name, worker.rank) for worker in map(self._worker, sorted(numbers)))

    def _worker(self, number: int) -> Worker:
        assert self.last is not None
        return self.last.plans[number].worker

    # Which workers failed, and why.

    def find(self, failures: list[FailedWorker]) -> RoundSwept:
        """Diagnose the failures, add other suspects, and sort them by blame. Keeps them for the report."""
        found = [self.complete(failure) for failure in failures]
        if all(one.is_secondary for one in found):
            found += self.suspects()
        self.found = tuple(in_order_of_blame(found))
        return RoundSwept(self.found, self.reached())

    def reached(self) -> int:
        """The highest step that a worker of this node has reported in this round."""
        return max(map(self._step, self.pids), default=NO_STEP)

    def is_secondary(self, exited: WorkerExited) -> bool:
        return self.complete(self.exits[exited.worker]).is_secondary

    def suspects(self) -> list[FailedWorker]:
        """Workers to blame if every known failure is secondary: they had already failed when asked to stop, or they
        exited early with code 0."""
        found = []
        for number, exited in self.exits.items():
            role, asked = self.spec.all_roles[self._worker(number).role], exited.asked_to_stop
            if role.on_failure == IGNORE or bool(exited.code) is not asked or (role.serves and not asked):
                continue
            one = self.complete(exited)
            name = one.exception.rpartition(".")[2]
            had_failed = name not in STOP_EXCEPTIONS or (exited.code < 0 and -exited.code not in STOP_SIGNALS)
            if not asked or (had_failed and not one.is_secondary):
                found.append(one)
        return found

    def _consequences(self) -> tuple[FailedWorker, ...]:
        """Workers that were asked to stop after they had raised an exception about a lost process."""
        known = {one.worker for one in self.found}
        stopped = [end for number, end in self.exits.items() if end.asked_to_stop and end.code and number not in known]
        diagnoses = map(self.complete, stopped[:MOST_DIAGNOSED])
        return tuple(one for one in diagnoses if one.is_secondary and one.exception)

    def complete(self, failure: FailedWorker) -> FailedWorker:
        """Add everything that is known by now to a failure that the supervisor reported."""
        assert self.last is not None
        roster = self.last.roster
        hangs = is_hang(failure.code, failure.cause)
        failed = failure._replace(
            node=roster.seats[self.last.seat].host,
            attempt=roster.attempt,
            at=failure.at + self.epoch,
            ending=HANG_IN_WORDS if hangs else ending_in_words(failure.code),
            hint=HINTS[failure.cause],
        )
        if failure.worker < 0:
            return failed
        worker = self._worker(failure.worker)
        failed = failed._replace(
            rank=worker.rank,
            local_rank=worker.local_rank,
            pid=self.pids.get(failure.worker, 0),
            log="" if self.spec.interactive else worker.stderr,
            role=worker.name,
            step=self._step(failure.worker),
        )
        if failure.cause == NOT_STARTED:
            error = self.errors[failure.worker]
            hint = PROCESS_LIMIT_HINT if error == EAGAIN else failed.hint
            failed = failed._replace(said=(f"{os.strerror(error)}: {worker.argv[0]}",), hint=hint)
        return failed if hangs or failure.cause == NOT_STARTED else self._diagnose(failed, worker)

    def _diagnose(self, failed: FailedWorker, worker: Worker) -> FailedWorker:
        """Reads the logs again only if their sizes have changed."""
        recorded = own_file(self.spec, worker, ERROR)
        sizes = tuple(map(_size, (recorded, *worker.logs)))
        known = self._diagnosed.get(failed.worker)
        if known is None or known[0] != sizes:
            from flota.failures.diagnosis import diagnosed, with_full_log_disk
            from flota.logs.directory import is_disk_full

            kill = self._kills.get(failed.worker)
            one = diagnosed(failed, self._read_output(failed, worker, recorded))
            one = with_full_log_disk(one) if is_disk_full(self.spec.log.directory) else one
            known = self._diagnosed[failed.worker] = sizes, one._replace(evidence=kill.words if kill else "")
        return known[1]._replace(final=failed.final)

    def _step(self, worker: int) -> int:
        """The step of a worker. After the round, when the channel is closed, the step at its exit."""
        if self.last and self.last.channel.fd >= 0:
            return self.last.channel.read(worker).step
        return self.exits[worker].step if worker in self.exits else NO_STEP

    def _read_output(self, failed: FailedWorker, worker: Worker, recorded: str) -> Evidence:
        """In order: the recorded exception, the last traceback in the logs, the last lines."""
        from flota.failures.diagnosis import Evidence
        from flota.failures.last_output import last_output, recorded_exception

        tails = self._tails(worker)
        kill = self._kills.get(failed.worker) or self._child_kill(tails)
        seen = Evidence(failed.code, failed.asked_to_stop, misplaced=self.spec.misplaced)
        seen = seen._replace(memory=kill.killed, counted=kill.counted)
        return recorded_exception(recorded, seen) or last_output(tails, seen)

    def _child_kill(self, tails: list[list[str]]) -> MemoryEvidence:
        """Evidence for a data loader that the OOM killer killed: its worker then fails with an exception."""
        killed = next((line for lines in tails for line in lines[-20:] if CHILD_KILLED in line), "")
        if not self._memory or not killed:
            return MemoryEvidence("", counted=False, words="")
        pid = killed.partition("(pid ")[2].partition(")")[0]
        return self._memory.evidence_for(int(pid) if pid.isdecimal() else 0)

    def _tails(self, worker: Worker) -> list[list[str]]:
        from flota.failures.last_output import read_tail

        assert self.last is not None
        begins = {path: end for path, (_, end) in self.last.marks.items()}
        begins |= {log.path: 0 for log in self.last.rotating if log.rotated}
        return [read_tail(path, begins[path]) for path in reversed(worker.logs) if path in begins]


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def bound_workers(started: Started) -> tuple[BoundWorker, ...]:
    host = started.roster.seats[started.seat].host
    return tuple(
        BoundWorker(worker.name, worker.rank, host, bound.cpu_list, bound.memory_node)
        for worker in (plan.worker for plan in started.plans)
        if (bound := worker.binding)
    )


def sizes_of(spec: JobSpec, roster: Roster) -> dict[str, int]:
    """The number of workers of the job by role."""
    sizes: dict[str, int] = {}
    for number, role in enumerate(spec.all_roles):
        sizes[role.name] = sizes.get(role.name, 0) + roster.size(number)
    return sizes
