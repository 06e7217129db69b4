"""Watches a running round for hangs: signs of life and samples go to the detector, its findings to people. Of several
nodes, each answers what its ranks are waiting on: for a hang, and for a user who asks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from flota.failures.last_words import read_tail
from flota.hangs.capture import StackTaker, Taken, ranks_of, save, with_positions
from flota.hangs.detector import Hangs, Signs
from flota.hangs.question import ABORT, PositionsAnswer, sendable
from flota.hangs.stack_dump import Sample, parse_faulthandler
from flota.hangs.suspects import find_suspects, groups_in_words, in_words
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

FEW = 3  # looks in a row: a stack that is just changing may be unreadable
REST = 1.0  # seconds between looks when there is no worker to look at


class HangWatch:
    """One round's. The node's `on_idle` is called when its workers make no progress, and when they seem to again."""

    def __init__(self, node: NodeWatch) -> None:
        self.node = node
        self.taker = StackTaker(node.environ, node.loop)
        self.file = ""
        self._sight_known = False  # whether stacks can be read
        self._blind_looks = 0

    def begin_round(self) -> None:
        self.ranks: list[RankPosition] = []  # whose stacks have been taken
        self.left: list[RankPosition] = []  # that have ended with 0
        self.samples: dict[int, Sample] = {}
        self.found = self.idle = self.blind = False
        self.trouble = ""
        self._quiet_words: tuple[str, ...] = ()
        spec, now = self.node.spec, time.monotonic()
        assert spec.hang_timeout is not None
        self.hangs = Hangs(spec.hang_timeout, now, on_devices=bool(spec.devices.chosen))
        self.hangs.look(now, self._signs(sorted(self.node.working())))

    @property
    def deadline(self) -> float | None:
        if self.taker.busy:
            return self.taker.deadline
        watches = self.node.supervisor.phase == Phase.RUNNING and not self.found
        return self.hangs.deadline if watches else None

    def note(self, event: Event) -> None:
        if isinstance(event, WorkerExited):
            if event.code == 0 and not event.asked_to_stop:
                for one in self._ranks([event.worker], event.at):
                    words = f"ended with 0 after {duration_in_words(one.ran)}"
                    self.left.append(one._replace(kind=ENDED, words=words))
            self.hangs.note_sign(event.at)

    def on_time(self, now: float) -> None:
        self.taker.on_time(now)
        deadline = self.deadline
        if deadline is None or now < deadline or self.taker.busy:
            return
        working = self._working()
        if not working:
            self.hangs.deadline = now + REST
        elif self.hangs.look(now, self._signs(working)):
            self.taker.take(ranks_of(self.node, working), self._sampled)
        else:
            self._report_idle(idle=False)
            # One look at a worker shows if stacks can be read, but not while its interpreter boots.
            may_try = not self.taker.spy or self.hangs.heard or now - self.hangs.last_sign > self.hangs.timeout / 2
            if may_try and not self._sight_known:
                self.taker.take(ranks_of(self.node, working[:1]), self._note_sight)

    def _note_sight(self, taken: Taken) -> None:
        """Reported early in the job: with the alarm it would be too late to change anything."""
        self._blind_looks = self._blind_looks + 1 if taken.blind else 0
        if self._blind_looks == (FEW if self.taker.spy else 1):
            self.node.console.say("WARNING", f"stacks cannot be read, so silence alone tells a hang ({taken.trouble})")
        self._sight_known = self._sight_known or self._blind_looks in (0, FEW) or not self.taker.spy

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

    def _sampled(self, taken: Taken) -> None:
        if self.node.supervisor.phase != Phase.RUNNING or self.found:
            return
        self._note_sight(taken)
        idle = self.hangs.sampled(time.monotonic(), taken.samples)
        work, self.hangs.work = self.hangs.work, ""
        if work:
            number, _, what = work.partition(" ")
            worker = self.node.started.plans[int(number)].worker
            self.node.console.say("INFO", f"{self.quiet}, but {label(worker.name, worker.rank)} is at work: {what}")
        self._report_idle(idle=idle)

    def _report_idle(self, *, idle: bool) -> None:
        if idle != self.idle:
            self.idle = idle
            self.node.on_idle(idle)

    @property
    def quiet(self) -> str:
        what = "no step" if self.hangs.counts_steps else "no output"
        return f"{what} for {duration_in_words(time.monotonic() - self.hangs.last_sign)}"

    # All stacks at one moment.

    def take_stacks(self, then: Then) -> None:
        """Call back with what this node's ranks are waiting on, and whether no stack could be read; not if one gives a
        sign of life meanwhile: it takes seconds."""
        self.found = True
        self.taker.stop()
        self.ranks = self._ranks(self.node.supervisor.alive, time.monotonic())
        self.taker.take(
            self.ranks, lambda taken: self._taken(taken, then), everybody=True, native=self.node.spec.native_stacks
        )

    def _taken(self, taken: Taken, then: Then) -> None:
        working = self._working()
        if working and not self.hangs.look(time.monotonic(), self._signs(working)):
            self.resume()
            self.node.on_idle(False)  # noqa: FBT003
            return
        self.samples, self.trouble = taken
        then(self._positions(saves=not taken.blind), taken.blind and bool(self.ranks))

    def resume(self) -> None:
        """The job does not hang, here or elsewhere."""
        self.taker.stop()
        self.found = self.idle = False
        self.hangs.forget_samples()

    def _ranks(self, workers: Iterable[int], now: float) -> list[RankPosition]:
        """With how long they have run, and how far they are: when all workers are gone, there is no channel to read."""
        began, read = self.node.supervisor.started_at, self.node.started.channel.read
        return [
            one._replace(ran=now - began.get(one.worker, now), step=read(one.worker).step)
            for one in ranks_of(self.node, workers)
        ]

    def _positions(self, *, saves: bool) -> tuple[RankPosition, ...]:
        """Without those that serve others: they wait for them all the time."""
        seen, serving = with_positions(self.ranks, self.samples), self.node.supervisor.serving
        positions = tuple(one for one in (*seen, *self.left) if one.worker not in serving or one.kind == HALTED)
        if saves:
            self.file = save(self.node, (self.quiet, *in_words(positions)), seen, self.samples)
        return positions

    def read_aborted(self) -> tuple[RankPosition, ...]:
        """By the stacks that workers that were aborted have left in their logs."""
        self.blind = False
        for worker, sample in self.samples.items():
            log = self.node.started.plans[worker].worker.stderr
            lines = read_tail(log, self.node.started.marks.get(log, (0, 0))[1])
            self.samples[worker] = sample._replace(stacks=parse_faulthandler(lines))
        return self._positions(saves=True)

    # On one machine.

    def find_hang(self, positions: tuple[RankPosition, ...], *, blind: bool) -> HangFound:
        suspects = find_suspects(positions)
        seen = "no bytes nor children show work" if blind else "all ranks stand still"
        self._quiet_words = (f"{self.quiet}, and {seen}",)
        self.node.console.say("WARNING", f"the job hangs: {self._quiet_words[0]}")
        self.node.console.event("hang_found", suspects=[one.rank for one in suspects])
        self.blind = blind
        words = self._explain((f"stacks cannot be read: {self.trouble}",) if blind else in_words(positions))
        return HangFound(() if blind else tuple(one.worker for one in suspects), words, time.monotonic(), blind)

    def explain(self) -> HangFound:
        positions = self.read_aborted()
        words = self._explain(in_words(positions))
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
    """`blind`: workers must be aborted for their stacks; `aborted`: they were, and are waited for."""

    def __init__(self, node: MultiNode) -> None:
        self.node = node
        self.taker = StackTaker(node.environ, node.loop)  # beside that of the hang watch, which may be busy
        self.blind = self.aborted = False
        self._known = PositionsAnswer()

    def answer_hang(self, question: Question, *, workers_gone: bool) -> None:
        """As soon as it is known; a node that does not watch its ranks has nothing to say."""
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
            self.node.end_hung(RoundRecalled(SIGABRT), blind=True)
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
        """The ranks go on; all stacks of this node are written to a file."""
        node, started = self.node, self.node.started

        def on_taken(taken: Taken) -> None:
            if node.in_round and started is node.started:
                positions = with_positions(ranks, taken.samples)
                save(node, groups_in_words(positions), positions, taken.samples)
                node.reply(question, PositionsAnswer(tuple(map(sendable, positions))))

        ranks = ranks_of(node, node.supervisor.alive)
        self.taker.stop()
        self.taker.take(ranks, on_taken, everybody=True)


def answer_stacks(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001  a row's signature
    node.stack_answers.answer_hang(question, workers_gone=workers_gone)


def answer_positions(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001
    if not workers_gone:
        node.stack_answers.answer_user(question)
