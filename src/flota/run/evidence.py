"""How the job ended, put together: the supervisor's verdict, what was seen of each worker, and what it said last."""

from __future__ import annotations

import os
import time

from flota.failures.blame import in_order_of_blame
from flota.failures.oom import MemoryEvidence, MemoryWatch
from flota.job.causes import NOT_STARTED, SHEPHERD_LOST, is_hang
from flota.job.plan import ERROR, own_file
from flota.job.report import HANG_IN_WORDS, NO_STEP, FailedWorker, Failure, Report, Verdict, with_failures
from flota.job.roles import IGNORE
from flota.job.roster import Roster
from flota.job.spec import JobSpec
from flota.run.start import Started
from flota.supervise.events import Event, StartFailed, WorkerExited, WorkerStarted
from flota.wording import ending_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.failures.diagnosis import Evidence
    from flota.failures.last_words import LastWords

SIGINT, SIGKILL, SIGTERM = 2, 9, 15
STOPS = (SIGTERM, SIGKILL, SIGINT)  # what we send, and what python makes of it that takes SIGTERM for Ctrl-C
CHILD_KILLED = "killed by signal: Killed"  # torch's words for a data loader's process
# What a worker raises because it was asked to stop.
STOPPED_BY = ("", "KeyboardInterrupt", "SystemExit", "SignalException")


class FailureEvidence:
    """Keeps of the last round what the report needs. `epoch`: what the clock that never jumps lacks to be the time."""

    def __init__(self, spec: JobSpec, began: float, epoch: float = 0.0) -> None:
        self.spec = spec
        self.began = began
        self.epoch = epoch
        self.rounds = 0
        self.last: Started | None = None
        self.found: tuple[FailedWorker, ...] = ()  # in the last round that failed, in order of blame
        self._memory: MemoryWatch | None = None
        self._forget()

    def _forget(self) -> None:
        self.pids: dict[int, int] = {}
        self.began_at: dict[int, float] = {}
        self.exits: dict[int, WorkerExited] = {}
        self.errors: dict[int, str] = {}
        self.ignored: list[tuple[str, int]] = []
        self._kills: dict[int, MemoryEvidence] = {}
        self._steps: dict[int, int] = {}

    def begin_round(self, started: Started) -> None:
        self.rounds += 1
        self.last = started
        self._forget()
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
            self.errors[event.worker] = os.strerror(event.errno)
        elif isinstance(event, WorkerExited):
            self.exits[event.worker] = event
            if self.last and self.last.channel.fd >= 0:
                self._steps[event.worker] = self.last.channel.read(event.worker).step
            if event.code in (-SIGKILL, 128 + SIGKILL) and not event.asked_to_stop and self._memory:
                self._kills[event.worker] = self._memory.look(self.pids.get(event.worker, 0))

    def on_time(self, now: float) -> None:
        """What was counted before the first failure stays."""
        if self._memory and not any(end.code for end in self.exits.values()):
            self._memory.move_on(now)

    def report(self, started: Started | None, verdict: Verdict) -> Report:
        """None: no round has begun."""
        report = Report(
            job_id=self.spec.job_id,
            verdict=verdict,
            sizes=sizes_of(self.spec, started.roster) if started else {},
            rounds=self.rounds,
            seconds=time.monotonic() - self.began,
            log_dir=self.spec.log.directory,
            stopped=self._workers(started, asked_to_stop=True) if started else (),
            ignored=tuple(self.ignored),
            several=self.spec.nodes is not None,
        )
        if started is None or not verdict.failures:
            return report
        return with_failures(report, self.found, self.ended_well(started))

    def ended_well(self, started: Started) -> tuple[tuple[str, int], ...]:
        return self._workers(started, asked_to_stop=False)

    def _workers(self, started: Started, *, asked_to_stop: bool) -> tuple[tuple[str, int], ...]:
        """Those that were asked to stop, or those that ended with 0 by themselves."""
        ends = sorted(self.exits.items())
        numbers = [
            worker for worker, end in ends if end.asked_to_stop is asked_to_stop and (asked_to_stop or end.code == 0)
        ]
        return tuple((worker.name, worker.rank) for worker in (started.plans[number].worker for number in numbers))

    # Who failed, and of what.

    def find(self, failures: list[Failure], started: Started) -> tuple[Failure, ...]:
        """The same failures, and who else may be to blame, in order of blame and with their causes; kept for the
        report."""
        found = {self.failed(failure, started): failure.worker for failure in failures}
        if all(one.is_secondary for one in found):
            found |= self.suspects(started)
        self.found = tuple(in_order_of_blame(list(found)))
        reached = self.reached()
        return tuple(
            Failure(
                worker=found[one],
                code=one.code,
                cause=one.cause,
                ran=one.ran,
                at=one.at - self.epoch,
                final=one.final,
                exception=one.exception,
                step=reached,
                asked_to_stop=one.asked_to_stop,
            )
            for one in self.found
        )

    def reached(self) -> int:
        """The furthest step that any worker of this node has told in this round."""
        return max((self._step(number, self.last) for number in self.pids), default=NO_STEP) if self.last else NO_STEP

    def is_secondary(self, exited: WorkerExited, started: Started) -> bool:
        return self.failed(self._failure(exited), started).is_secondary

    def suspects(self, started: Started) -> dict[FailedWorker, int]:
        """Workers that no failure is known of and that are to blame all the same, if nobody else is: they were asked to
        stop when they had failed already, or had ended as if their work were done."""
        found: dict[FailedWorker, int] = {}
        for worker, exited in self.exits.items():
            role = self.spec.all_roles[started.plans[worker].worker.role]
            if (
                role.on_failure == IGNORE
                or bool(exited.code) is not exited.asked_to_stop
                or (role.serves and not exited.asked_to_stop)
            ):
                continue
            one = self.failed(self._failure(exited), started)
            name = one.exception.rpartition(".")[2]
            had_failed = name not in STOPPED_BY or (exited.code < 0 and -exited.code not in STOPS)
            if not exited.asked_to_stop or (had_failed and not one.is_secondary):
                found[one] = worker
        return found

    def _failure(self, exited: WorkerExited) -> Failure:
        ran = max(0.0, exited.at - self.began_at.get(exited.worker, exited.at))
        return Failure(exited.worker, exited.code, "", ran, exited.at, asked_to_stop=exited.asked_to_stop)

    def failed(self, failure: Failure, started: Started) -> FailedWorker:
        roster = started.roster
        if failure.cause == SHEPHERD_LOST:
            return self._nobodys(failure, started, ending_in_words(failure.code))
        if is_hang(failure.code, failure.cause):
            return self._hung(failure, started)
        from flota.failures.diagnosis import diagnose, is_secondary

        worker = started.plans[failure.worker].worker
        said, evidence = self._said(failure, started)
        diagnosis = diagnose(evidence)
        kill = self._kills.get(failure.worker)
        return FailedWorker(
            rank=worker.rank,
            local_rank=worker.local_rank,
            node=roster.seats[worker.seat].host,
            pid=self.pids.get(failure.worker, 0),
            code=failure.code,
            cause=diagnosis.cause,
            ending=ending_in_words(failure.code, diagnosis.words),
            ran=failure.ran,
            log="" if self.spec.interactive else worker.stderr,
            said=said,
            role=worker.name,
            final=failure.final,
            attempt=roster.attempt,
            step=self._step(failure.worker, started),
            at=failure.at + self.epoch,
            asked_to_stop=failure.asked_to_stop,
            is_secondary=is_secondary(evidence),
            exception=diagnosis.exception,
            evidence=kill.words if kill else "",
            hint=diagnosis.hint,
        )

    def _hung(self, failure: Failure, started: Started) -> FailedWorker:
        """One that made the others wait; -1: nobody stands out."""
        from flota.failures.diagnosis import HINTS

        unnamed = self._nobodys(failure, started, HANG_IN_WORDS)
        if failure.worker < 0:
            return unnamed
        worker = started.plans[failure.worker].worker
        return unnamed._replace(
            rank=worker.rank,
            local_rank=worker.local_rank,
            pid=self.pids.get(failure.worker, 0),
            log=worker.stderr,
            role=worker.name,
            step=self._step(failure.worker, started),
            hint=HINTS.get(failure.cause, ""),
        )

    def _nobodys(self, failure: Failure, started: Started, ending: str) -> FailedWorker:
        """Of no rank: the shepherd's, or of all together."""
        return FailedWorker(
            rank=-1,
            local_rank=-1,
            node=started.roster.seats[started.seat].host,
            pid=0,
            code=failure.code,
            cause=failure.cause,
            ending=ending,
            ran=failure.ran,
            log="",
            said=failure.words,
            attempt=started.roster.attempt,
            at=failure.at + self.epoch,
        )

    def _step(self, worker: int, started: Started) -> int:
        """Noted when it ended: the channel is closed with its round."""
        return self._steps.get(worker, NO_STEP) if started.channel.fd < 0 else started.channel.read(worker).step

    def _said(self, failure: Failure, started: Started) -> tuple[tuple[str, ...], Evidence]:
        """What it said last, for people and for a diagnosis. What was recorded knows best; then the last traceback in
        the log; then its last lines."""
        from flota.failures.diagnosis import Evidence
        from flota.failures.last_words import last_words

        if failure.cause == NOT_STARTED:
            program = started.plans[failure.worker].worker.argv[0]
            return (f"{self.errors[failure.worker]}: {program}",), Evidence(failure.code, unstarted=True)
        tails = self._tails(failure.worker, started)
        kill = self._kills.get(failure.worker) or self._kill_of_a_child(tails)
        seen = Evidence(failure.code, failure.asked_to_stop, memory=kill.killed, counted=kill.counted)
        recorded = recorded_words(own_file(self.spec, started.plans[failure.worker].worker, ERROR))
        words = recorded or last_words(tails, failure.code, asked_to_stop=failure.asked_to_stop)
        return words.said, words.added_to(seen)

    def _kill_of_a_child(self, tails: list[list[str]]) -> MemoryEvidence:
        """A worker whose data loader was killed for memory fails with an exception of its own."""
        killed = next((line for lines in tails for line in lines[-20:] if CHILD_KILLED in line), "")
        if not self._memory or not killed:
            return MemoryEvidence("", counted=False, words="")
        pid = killed.partition("(pid ")[2].partition(")")[0]
        return self._memory.look(int(pid) if pid.isdecimal() else 0)

    def _tails(self, number: int, started: Started) -> list[list[str]]:
        from flota.failures.last_words import read_tail

        worker = started.plans[number].worker
        begins = {path: end for path, (_, end) in started.marks.items()}
        begins |= {log.path: 0 for log in started.rotating if log.rotated}
        return [read_tail(path, begins[path]) for path in reversed(worker.logs) if path in begins]


def sizes_of(spec: JobSpec, roster: Roster) -> dict[str, int]:
    """How many workers the job has, by the names of their roles."""
    sizes: dict[str, int] = {}
    for number, role in enumerate(spec.all_roles):
        sizes[role.name] = sizes.get(role.name, 0) + roster.size(number)
    return sizes


def recorded_words(path: str) -> LastWords | None:
    """What a script that uses flota.record or torch's @record has written, if anything."""
    try:
        with open(path) as file:
            text = file.read()
    except (OSError, ValueError):
        return None
    import json

    try:
        message = json.loads(text)["message"]
        stack = message if isinstance(message, str) else message["extraInfo"]["py_callstack"]
    except (ValueError, KeyError, TypeError):
        return None
    from flota.failures.last_words import recorded

    return recorded(str(stack))
