"""Watches a running round for hangs: passes signs of life and samples to the detector, and reports its findings. In a
job of several nodes each one answers what its ranks are waiting on, for a hang and for `flota stack`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from flota.failures.last_output import read_tail
from flota.hangs.capture import SampleSet, StackTaker, ranks_of, save, with_positions
from flota.hangs.detector import HangDetector, Signs
from flota.hangs.question import ABORT, PositionsAnswer, sendable
from flota.hangs.stack_dump import Sample, parse_faulthandler
from flota.hangs.suspects import find_suspects, groups_in_words, hang_in_words
from flota.hangs.wait_sites import ENDED, HALTED, RankPosition
from flota.humanize import duration_in_words
from flota.job.roles import label
from flota.job.survey_outcomes import Question
from flota.supervise.events import Event, HangFound, RoundRecalled, WorkerExited
from flota.supervise.grace_period import SIGABRT
from flota.supervise.supervisor import Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode
    from flota.run.node_watch import NodeWatch

    Then = Callable[[tuple[RankPosition, ...], bool], object]

MAX_FAILED_READS = 3  # in a row: a stack that is just changing may be unreadable
NO_WORKER_INTERVAL = 1.0  # seconds between checks while there is no worker


class HangWatch:
    """Calls the node's `on_idle` when its workers make no progress, and when they seem to make progress again."""

    def __init__(self, node: NodeWatch) -> None:
        self.node = node
        self.taker = StackTaker(node.environ, node.loop)
        self.file = ""
        self._readable_known = False  # it is known whether stacks can be read
        self._failed_reads = 0

    def begin_round(self) -> None:
        self.ranks: list[RankPosition] = []  # whose stacks have been taken
        self.left: list[RankPosition] = []  # ranks that have exited with code 0
        self.samples: dict[int, Sample] = {}
        self.found = self.idle = self.blind = False
        self.trouble = ""
        self._quiet_words: tuple[str, ...] = ()
        spec, now = self.node.spec, time.monotonic()
        assert spec.hang_timeout is not None
        self.detector = HangDetector(spec.hang_timeout, now, on_devices=bool(spec.devices.chosen))
        self.detector.check(now, self._signs(sorted(self.node.working())))

    @property
    def deadline(self) -> float | None:
        if self.taker.busy:
            return self.taker.deadline
        watches = self.node.supervisor.phase == Phase.RUNNING and not self.found
        return self.detector.deadline if watches else None

    def note(self, event: Event) -> None:
        if isinstance(event, WorkerExited):
            if event.code == 0 and not event.asked_to_stop:
                for one in self._ranks([event.worker], event.at):
                    words = f"exited with code 0 after {duration_in_words(one.ran)}"
                    self.left.append(one._replace(kind=ENDED, words=words))
            self.detector.note_sign(event.at)

    def on_time(self, now: float) -> None:
        self.taker.on_time(now)
        deadline = self.deadline
        if deadline is None or now < deadline or self.taker.busy:
            return
        working = self._working()
        if not working:
            self.detector.deadline = now + NO_WORKER_INTERVAL
        elif self.detector.check(now, self._signs(working)):
            self.taker.take(ranks_of(self.node, working), self._sampled)
        else:
            self._report_idle(idle=False)
            # Sampling one worker shows whether stacks can be read, but not while its interpreter starts.
            has_started = self.detector.has_signs or now - self.detector.last_sign > self.detector.timeout / 2
            may_try = not self.taker.spy or has_started
            if may_try and not self._readable_known:
                self.taker.take(ranks_of(self.node, working[:1]), self._check_readable)

    def _check_readable(self, taken: SampleSet) -> None:
        """Warn early if stacks cannot be read: when the job hangs, it is too late to change that."""
        self._failed_reads = self._failed_reads + 1 if taken.blind else 0
        if self._failed_reads == (MAX_FAILED_READS if self.taker.spy else 1):
            self.node.console.say("WARNING", f"cannot read stacks, so only silence indicates a hang ({taken.trouble})")
        self._readable_known = self._readable_known or self._failed_reads in (0, MAX_FAILED_READS) or not self.taker.spy

    def _working(self) -> list[int]:
        return sorted(worker for worker in self.node.working() if worker in self.node.evidence.pids)

    def _signs(self, working: list[int]) -> Signs:
        beats = {worker: self.node.started.channel.read(worker) for worker in working}
        printed = sum(_size(path) for plan in self.node.started.plans for path in plan.worker.logs)
        return Signs(
            {worker: beat.step for worker, beat in beats.items()},
            {worker: beat.at for worker, beat in beats.items()},
            printed,
        )

    def _sampled(self, taken: SampleSet) -> None:
        if self.node.supervisor.phase != Phase.RUNNING or self.found:
            return
        self._check_readable(taken)
        idle = self.detector.sampled(time.monotonic(), taken.samples)
        work, self.detector.work = self.detector.work, ""
        if work:
            number, _, what = work.partition(" ")
            worker = self.node.started.plans[int(number)].worker
            self.node.console.say("INFO", f"{self.quiet}, but {label(worker.name, worker.rank)} is active: {what}")
        self._report_idle(idle=idle)

    def _report_idle(self, *, idle: bool) -> None:
        if idle != self.idle:
            self.idle = idle
            self.node.on_idle(idle)

    @property
    def quiet(self) -> str:
        what = "no step" if self.detector.counts_steps else "no output"
        return f"{what} for {duration_in_words(time.monotonic() - self.detector.last_sign)}"

    # Stacks of all ranks.

    def take_stacks(self, then: Then) -> None:
        """Call `then` with what this node's ranks are waiting on, and whether no stack could be read. Not called if a
        rank shows a sign of life meanwhile: this takes seconds."""
        self.found = True
        self.taker.stop()
        self.ranks = self._ranks(self.node.supervisor.alive, time.monotonic())
        self.taker.take(
            self.ranks, lambda taken: self._taken(taken, then), all_children=True, native=self.node.spec.native_stacks
        )

    def _taken(self, taken: SampleSet, then: Then) -> None:
        working = self._working()
        if working and not self.detector.check(time.monotonic(), self._signs(working)):
            self.resume()
            self.node.on_idle(False)  # noqa: FBT003
            return
        self.samples, self.trouble = taken
        then(self._positions(saves=not taken.blind), taken.blind and bool(self.ranks))

    def resume(self) -> None:
        """The job does not hang, on this node or another one."""
        self.taker.stop()
        self.found = self.idle = False
        self.detector.forget_samples()

    def _ranks(self, workers: Iterable[int], now: float) -> list[RankPosition]:
        """Ranks with their run time and step, read now: when all workers are gone, there is no channel."""
        began, read = self.node.supervisor.started_at, self.node.started.channel.read
        return [
            one._replace(ran=now - began.get(one.worker, now), step=read(one.worker).step)
            for one in ranks_of(self.node, workers)
        ]

    def _positions(self, *, saves: bool) -> tuple[RankPosition, ...]:
        """Leave out ranks that serve others, because they always wait."""
        seen, serving = with_positions(self.ranks, self.samples), self.node.supervisor.serving
        positions = tuple(one for one in (*seen, *self.left) if one.worker not in serving or one.kind == HALTED)
        if saves:
            self.file = save(self.node, (self.quiet, *hang_in_words(positions)), seen, self.samples)
        return positions

    def read_aborted(self) -> tuple[RankPosition, ...]:
        """Positions by the stacks that aborted workers have written to their logs."""
        self.blind = False
        for worker, sample in self.samples.items():
            log = self.node.started.plans[worker].worker.stderr
            lines = read_tail(log, self.node.started.marks.get(log, (0, 0))[1])
            self.samples[worker] = sample._replace(stacks=parse_faulthandler(lines))
        return self._positions(saves=True)

    # On one machine.

    def find_hang(self, positions: tuple[RankPosition, ...], *, blind: bool) -> HangFound:
        suspects = find_suspects(positions)
        seen = "there is no I/O or child process activity" if blind else "no rank is making progress"
        self._quiet_words = (f"{self.quiet}, and {seen}",)
        self.node.console.say("WARNING", f"the job is hanging: {self._quiet_words[0]}")
        quiet = round(time.monotonic() - self.detector.last_sign, 6)
        self.node.console.event("hang_found", suspects=[one.rank for one in suspects], quiet_seconds=quiet)
        self.blind = blind
        words = self._explain((f"cannot read stacks: {self.trouble}",) if blind else hang_in_words(positions))
        return HangFound(() if blind else tuple(one.worker for one in suspects), words, time.monotonic(), blind)

    def explain(self) -> HangFound:
        positions = self.read_aborted()
        words = self._explain(hang_in_words(positions))
        return HangFound(tuple(one.worker for one in find_suspects(positions)), words, time.monotonic())

    def _explain(self, words: tuple[str, ...]) -> tuple[str, ...]:
        stacks = (f"stacks: {self.file}",) if self.file and not self.blind else ()
        self.node.console.own_log.write_text("WARNING", "\n".join(f"  {line}" for line in (*words, *stacks)))
        return (*self._quiet_words, *words, *stacks)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class StackAnswers:
    """`blind`: workers must be aborted to get their stacks; `aborted`: they were, and have not all exited yet."""

    def __init__(self, node: MultiNode) -> None:
        self.node = node
        self.taker = StackTaker(node.environ, node.loop)  # separate from that of the hang watch, which may be busy
        self.blind = self.aborted = False
        self._known = PositionsAnswer()

    def answer_hang(self, question: Question, *, workers_gone: bool) -> None:
        """Answer once the stacks have been read; at once if this node does not watch for hangs."""
        watch = self.node.hang_watch
        if watch is None:
            self.node.reply(question, PositionsAnswer())
        elif question.argument != ABORT:
            self.blind, self.aborted, self._known = False, False, PositionsAnswer()
            watch.take_stacks(lambda positions, blind: self._taken(question, positions, blind=blind))
        elif self.aborted and workers_gone:
            self.aborted = False
            self._reply(question, watch.read_aborted())
        elif self.blind and not workers_gone:
            self.blind, self.aborted = False, True
            self.node.stop_hung_workers(RoundRecalled(SIGABRT), blind=True)
        elif not self.aborted:
            self.node.reply(question, self._known)

    def _taken(self, question: Question, positions: tuple[RankPosition, ...], *, blind: bool) -> None:
        self.blind = blind and self.node.in_round
        if self.blind:
            self.node.reply(question, PositionsAnswer(blind=True))
        else:
            self._reply(question, positions)

    def _reply(self, question: Question, positions: tuple[RankPosition, ...]) -> None:
        self._known = PositionsAnswer(tuple(map(sendable, positions)))
        self.node.reply(question, self._known)

    def answer_user(self, question: Question) -> None:
        """Answer `flota stack`, and write all stacks of this node to a file. The ranks continue."""
        node, started = self.node, self.node.started

        def on_taken(taken: SampleSet) -> None:
            if node.in_round and started is node.started:
                positions = with_positions(ranks, taken.samples)
                save(node, groups_in_words(positions), positions, taken.samples)
                node.reply(question, PositionsAnswer(tuple(map(sendable, positions))))

        ranks = ranks_of(node, node.supervisor.alive)
        self.taker.stop()
        self.taker.take(ranks, on_taken, all_children=True)


def answer_stacks(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001  a row's signature
    node.stack_answers.answer_hang(question, workers_gone=workers_gone)


def answer_positions(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001
    if not workers_gone:
        node.stack_answers.answer_user(question)
