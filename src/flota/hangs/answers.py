"""A node's answers to what its ranks are waiting on: for a hang, and for a user who asks."""

from __future__ import annotations

from flota.hangs.capture import StackTaker, Subject, Taken, positions_of, save, subjects_of
from flota.hangs.pyspy import Spy, find_spy
from flota.hangs.question import ABORT, PositionsAnswer, sendable
from flota.hangs.suspects import groups_in_words
from flota.supervise.events import RoundRecalled
from flota.supervise.supervisor import SIGABRT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode
    from flota.hangs.wait_sites import RankPosition
    from flota.job.survey import Question
    from flota.run.start import Started


def answer_stacks(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001  a row's signature
    node.stack_answers.answer_hang(question, workers_gone=workers_gone)


def answer_positions(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001
    if not workers_gone:
        node.stack_answers.answer_user(question)


class StackAnswers:
    """`blind`: workers must be aborted for their stacks; `aborted`: they were, and are waited for."""

    def __init__(self, node: MultiNode) -> None:
        self.node = node
        self.blind = self.aborted = False
        self._known = PositionsAnswer()
        program = find_spy(node.environ)
        self._spy = Spy(program, node.loop) if program else None

    @property
    def deadline(self) -> float | None:
        return self._spy.deadline if self._spy and self._spy.busy else None

    def on_time(self, now: float) -> None:
        if self._spy:
            self._spy.on_time(now)

    def close(self) -> None:
        if self._spy:
            self._spy.stop()

    def answer_hang(self, question: Question, *, workers_gone: bool) -> None:
        """As soon as it is known; a node that does not watch its ranks has nothing to say."""
        watch = self.node.hang_watch
        if watch is None:
            self.node.reply(question, PositionsAnswer())
        elif question.argument != ABORT:
            self.blind = self.aborted = False
            watch.take_all(lambda positions, blind: self._taken(question, positions, blind))
        elif self.aborted and workers_gone:
            self.aborted = False
            self._tell(question, watch.left_behind())
        elif self.blind and not workers_gone:
            self.blind, self.aborted, watch.blind = False, True, True
            self.node.end_hung(RoundRecalled(SIGABRT), blind=True)
        elif not self.aborted:
            self.node.reply(question, self._known)

    def _taken(self, question: Question, positions: tuple[RankPosition, ...], blind: bool) -> None:  # noqa: FBT001
        if blind and self.node.in_round:
            self.blind = True
            self.node.reply(question, PositionsAnswer(blind=True))
        else:
            self._tell(question, positions)

    def _tell(self, question: Question, positions: tuple[RankPosition, ...]) -> None:
        self._known = PositionsAnswer(tuple(map(sendable, positions)))
        self.node.reply(question, self._known)

    def answer_user(self, question: Question) -> None:
        """The ranks go on; all stacks of this node are in a file."""
        node = self.node
        started = node.started
        subjects = subjects_of(started, node.evidence.pids, node.supervisor.alive)
        self.close()
        StackTaker(self._spy).take(
            subjects, lambda taken: self._seen(question, started, subjects, taken), everybody=True
        )

    def _seen(self, question: Question, started: Started, subjects: list[Subject], taken: Taken) -> None:
        node = self.node
        if not node.in_round or started is not node.started:
            return
        positions = positions_of(subjects, taken.samples, started.roster.seats[started.seat].host)
        try:
            save(node.spec, started, groups_in_words(positions), subjects, taken.samples)
        except OSError as error:
            node.console.say("WARNING", f"cannot write {error.filename}: {error.strerror}")
        node.reply(question, PositionsAnswer(tuple(map(sendable, positions))))
