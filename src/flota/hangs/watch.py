"""Watches a running round for hangs: what workers say and do to supervise/hangs, and its findings to people."""

from __future__ import annotations

import os
import time

from flota.failures.last_words import read_tail
from flota.hangs.capture import StackTaker, Subject, Taken, positions_of, save, subjects_of
from flota.hangs.detector import Hangs, Signs
from flota.hangs.pyspy import Spy, find_spy
from flota.hangs.stack import Sample, parse_faulthandler
from flota.hangs.suspects import find_suspects, in_words
from flota.hangs.wait_sites import ENDED, HALTED, RankPosition
from flota.host.loop import Loop
from flota.job.roles import label
from flota.job.spec import JobSpec
from flota.supervise.events import Event, HangExplained, HangFound, WorkerExited
from flota.supervise.phases import Phase
from flota.supervise.supervisor import Supervisor
from flota.wording import duration_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flota.run.console import Console
    from flota.run.start import Started

FEW = 3  # looks in a row: a stack that is just changing may be unreadable
REST = 1.0  # seconds between looks when there is nobody to look at


class HangWatch:
    """One round's. `on_stands` is called when this node's workers begin, or no longer seem, to stand still."""

    def __init__(
        self,
        spec: JobSpec,
        environ: Mapping[str, str],
        loop: Loop,
        console: Console,
        on_stands: Callable[[bool], object],
    ) -> None:
        program = find_spy(environ)
        self.spec = spec
        self.console = console
        self.spy = Spy(program, loop) if program else None
        self.taker = StackTaker(self.spy)
        self.on_stands = on_stands
        self.file = ""
        self.sees: bool | None = None  # stacks; None: not known yet
        self._blind_looks = 0

    def begin_round(self, started: Started, supervisor: Supervisor, pids: dict[int, int]) -> None:
        self.started = started
        self.supervisor = supervisor
        self.pids = pids
        self.ended: dict[int, WorkerExited] = {}
        self.steps: dict[int, int] = {}  # of those that have ended
        self.samples: dict[int, Sample] = {}
        self.found = self.stands_told = self.blind = False
        self.trouble = ""
        self._words: tuple[str, ...] = ()
        assert self.spec.hang_timeout is not None
        now = time.monotonic()
        self.hangs = Hangs(self.spec.hang_timeout, now, on_devices=bool(self.spec.devices.chosen))
        self.hangs.look(now, self._signs(sorted(supervisor.alive - supervisor.serving)))

    def end_round(self) -> None:
        if self.spy:
            self.spy.stop()

    @property
    def deadline(self) -> float | None:
        if self.taker.busy:
            return self.spy.deadline if self.spy else None
        watches = self.supervisor.phase == Phase.RUNNING and not self.found
        return self.hangs.deadline if watches else None

    def note(self, event: Event) -> None:
        if isinstance(event, WorkerExited):
            self.ended[event.worker] = event
            self.steps[event.worker] = self.started.channel.read(event.worker).step
            self.hangs.worker_ended(event.at)

    def on_time(self, now: float) -> None:
        if self.spy:
            self.spy.on_time(now)
        deadline = self.deadline
        if deadline is None or now < deadline or self.taker.busy:
            return
        working = self._working()
        if not working:
            self.hangs.deadline = now + REST
        elif self.hangs.look(now, self._signs(working)):
            self.taker.take(subjects_of(self.started, self.pids, working), self._sampled)
        else:
            if self.stands_told:
                self._tell_stands(stands=False)
            if self.sees is None and self._may_try(now):
                self.taker.take(subjects_of(self.started, self.pids, working[:1]), self._note_sight)

    def _may_try(self, now: float) -> bool:
        """Whether one look at a worker would tell if stacks can be read: not while its interpreter boots."""
        return self.spy is None or self.hangs.heard or now - self.hangs.life_at > self.hangs.timeout / 2

    def _note_sight(self, taken: Taken) -> None:
        """Said early in the job: whoever hears it with the alarm can change nothing any more."""
        if not taken.blind:
            self.sees, self._blind_looks = True, 0
            return
        self._blind_looks += 1
        if self.sees is not False and (self.spy is None or self._blind_looks == FEW):
            self.sees = False
            self.console.say("WARNING", f"stacks cannot be read, so silence alone tells a hang ({taken.trouble})")

    def _working(self) -> list[int]:
        return sorted(worker for worker in self.supervisor.alive - self.supervisor.serving if worker in self.pids)

    def _signs(self, working: list[int]) -> Signs:
        beats = {worker: self.started.channel.read(worker) for worker in working}
        printed = sum(_size(path) for plan in self.started.plans for path in plan.worker.logs)
        return Signs(
            {worker: beat.step for worker, beat in beats.items()},
            {worker: beat.at for worker, beat in beats.items()},
            printed,
        )

    def _sampled(self, taken: Taken) -> None:
        if self.supervisor.phase != Phase.RUNNING or self.found:
            return
        self.samples = taken.samples
        self._note_sight(taken)
        stands = self.hangs.sampled(time.monotonic(), taken.samples)
        work, self.hangs.work = self.hangs.work, ""
        if work:
            number, _, what = work.partition(" ")
            worker = self.started.plans[int(number)].worker
            self.console.say("INFO", f"{self.quiet}, but {label(worker.name, worker.rank)} is at work: {what}")
        if stands != self.stands_told:
            self._tell_stands(stands=stands)

    def _tell_stands(self, *, stands: bool) -> None:
        self.stands_told = stands
        self.on_stands(stands)

    @property
    def quiet(self) -> str:
        what = "no step" if self.hangs.tells_steps else "no output"
        return f"{what} for {duration_in_words(time.monotonic() - self.hangs.life_at)}"

    # All stacks at one moment.

    def take_all(self, then: Callable[[tuple[RankPosition, ...], bool], object]) -> None:
        """Call back with where this node's ranks stand, and whether that is known without stacks only; not if one has
        said something meanwhile: it takes seconds."""
        self.found = True
        if self.spy:
            self.spy.stop()
        subjects = subjects_of(self.started, self.pids, self.supervisor.alive)
        self.taker.take(
            subjects, lambda taken: self._taken(subjects, taken, then), everybody=True, native=self.spec.native_stacks
        )

    def _taken(
        self, subjects: list[Subject], taken: Taken, then: Callable[[tuple[RankPosition, ...], bool], object]
    ) -> None:
        working = self._working()
        if working and not self.hangs.look(time.monotonic(), self._signs(working)):
            self.go_on()
            self._tell_stands(stands=False)
            return
        self.samples = taken.samples
        self.trouble = taken.trouble
        positions = self._posts(subjects)
        if not taken.blind:
            self._save(subjects, in_words(positions))
        then(positions, taken.blind and bool(subjects))

    def go_on(self) -> None:
        """The job does not hang, here or elsewhere."""
        if self.spy:
            self.spy.stop()
        self.found = self.stands_told = False
        self.hangs.begin_anew()

    def _posts(self, subjects: list[Subject]) -> tuple[RankPosition, ...]:
        """Those that serve others wait for them all the time."""
        host = self.started.roster.seats[self.started.seat].host if self.spec.nodes else ""
        now = time.monotonic()
        standing = (
            post._replace(
                ran=now - self.supervisor.started_at.get(post.worker, now),
                step=self._step_of(post.worker),
            )
            for post in positions_of(subjects, self.samples, host)
        )
        done = [worker for worker, event in sorted(self.ended.items()) if event.code == 0 and not event.told]
        return tuple(
            post
            for post in (*standing, *(self._ended(worker, host) for worker in done))
            if post.worker not in self.supervisor.serving or post.kind == HALTED
        )

    def _step_of(self, worker: int) -> int:
        """When all workers are gone, there is no channel any more."""
        return self.steps[worker] if worker in self.steps else self.started.channel.read(worker).step

    def _ended(self, number: int, host: str) -> RankPosition:
        worker, exited = self.started.plans[number].worker, self.ended[number]
        ran = exited.at - self.supervisor.started_at.get(number, exited.at)
        words = f"ended with 0 after {duration_in_words(ran)}"
        pid, step = self.pids.get(number, 0), self.steps[number]
        where = worker.name, host, number, worker.local_rank, pid
        return RankPosition(worker.rank, ENDED, words, *where, worker.stderr, ran, step)

    def _save(self, subjects: list[Subject], words: tuple[str, ...]) -> None:
        self.file = ""
        try:
            self.file = save(self.spec, self.started, (self.quiet, *words), subjects, self.samples)
        except OSError as error:
            self.console.say("WARNING", f"cannot write {error.filename}: {error.strerror}")

    # On one machine.

    def accuse(self, positions: tuple[RankPosition, ...], blind: bool) -> HangFound:  # noqa: FBT001  as it is called back
        suspects = find_suspects(positions)
        seen = "all ranks stand still" if not blind else "no bytes nor children show work"
        self._words = (f"{self.quiet}, and {seen}",)
        told = in_words(positions) if not blind else (f"stacks cannot be read: {self.trouble}",)
        words = (*self._words, *told, *(self._where() if not blind else ()))
        self.console.say("WARNING", f"the job hangs: {words[0]}")
        self.console.event("hang_found", suspects=[post.rank for post in suspects])
        self.console.own_log.write_text("WARNING", "\n".join(f"  {line}" for line in words[1:]))
        self.blind = blind
        return HangFound(tuple(post.worker for post in suspects) if not blind else (), words, time.monotonic(), blind)

    def explain(self) -> HangExplained:
        positions = self.left_behind()
        words = in_words(positions)
        self.console.own_log.write_text("WARNING", "\n".join(f"  {line}" for line in words))
        suspects = tuple(post.worker for post in find_suspects(positions))
        return HangExplained(suspects, (*self._words, *words, *self._where()))

    def _where(self) -> tuple[str, ...]:
        return (f"stacks: {self.file}",) if self.file else ()

    def left_behind(self) -> tuple[RankPosition, ...]:
        """What workers that were aborted have left in their logs."""
        self.blind = False
        subjects = subjects_of(self.started, self.pids, self.samples)
        for subject in subjects:
            stacks = parse_faulthandler(self._log_of(subject.worker))
            self.samples[subject.worker] = self.samples[subject.worker]._replace(stacks=stacks)
        positions = self._posts(subjects)
        self._save(subjects, in_words(positions))
        return positions

    def _log_of(self, number: int) -> list[str]:
        worker = self.started.plans[number].worker
        return read_tail(worker.stderr, self.started.marks.get(worker.stderr, (0, 0))[1])


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
