"""One node's part in the job: follows the chair's notices and keeps its own card true. Decides; never acts or waits."""

from __future__ import annotations

from msgspec.structs import replace

from flota.errors import TRY_AGAIN, USAGE
from flota.job.report import FAILED as JOB_FAILED
from flota.job.report import INCOMPLETE, STOPPED, SUCCEEDED, exit_code_of
from flota.rendezvous import orders
from flota.rendezvous.cards import (
    DONE,
    FAILED,
    GONE,
    HERE,
    LEAVING,
    READY,
    RUNNING,
    SERVING,
    STACKED,
    YIELDED,
    YIELDING,
    Card,
    Fault,
)
from flota.rendezvous.notices import GATHERING, ROLL_CALL, STACKS, YIELD, Ending, Notice
from flota.rendezvous.notices import RUNNING as ROUND_RUNS
from flota.rendezvous.orders import Order
from flota.rendezvous.watched import Watched
from flota.supervise.blame import is_hang
from flota.supervise.yielding import NOW

SIGINT = 2
TO_ANSWER = (READY, RUNNING, SERVING, STACKED)
LAST_WORD = 3.0  # seconds that a leaving node waits to hear what the job does without it


class Node(Watched):
    def __init__(self, name: str, blank: Card, *, patience: float, lifeline: float, epoch: float = 0.0) -> None:
        super().__init__()
        self.name = name
        self.epoch = epoch  # makes a time of day of this node's own time
        self.over = False
        self.deadline: float | None = None
        self._blank = blank
        self._patience = patience  # seconds to wait for an answer before the job has begun
        self._lifeline = lifeline  # seconds that it goes on without one
        self.ending: Ending | None = None
        self._recalled = self._yields = False
        self._hang: tuple[Fault, ...] = ()  # that the round ended with: no card says so
        self._offering = -1
        self._leaving_at: float | None = None
        self._farewell = Ending(STOPPED)

    # What happens here.

    def offered(self, ports: tuple[int, ...], round_number: int) -> None:
        self.card = replace(self._blank, ports=ports, round=round_number, state=READY)
        self._offering = -1
        self._yields = self.asked_for_stacks = False
        self._hang = ()

    def failed(self, faults: tuple[Fault, ...], reached: int) -> None:
        """`reached`: the furthest step that a worker of this node has told."""
        if self.card:
            self.card = replace(self.card, reached=reached)
        self._say(FAILED, faults=faults)

    def answers(self, now: float, reached: int) -> None:
        """With the clock: a failure on another node is compared with those here by it."""
        if self.card and not self.card.clock:
            self.card = replace(self.card, clock=now + self.epoch, reached=reached)
        if self.card and self.card.state in TO_ANSWER:
            self._say(HERE)

    def testified(self, faults: tuple[Fault, ...], ended: tuple[tuple[str, int], ...]) -> None:
        """All that can be known here of a round that somebody has failed in."""
        if self.card:
            self.card = replace(self.card, faults=faults or self.card.faults, ended=ended, swept=True)

    def only_serves(self) -> None:
        """What is left of this node's workers is there for other nodes'."""
        self._say(SERVING)

    def stands(self, *, yields: bool, step: int, pace: float) -> None:
        if self.card:
            self.card = replace(self.card, state=YIELDING, yields=yields, step=step, pace=pace)

    def has_nothing_to_yield(self) -> None:
        """What is left of its workers serves others to the end."""
        if self.card:
            self.card = replace(self.card, state=YIELDED)

    def swept(self, *, well: bool, yielded: bool = False) -> None:
        """All workers of the round are gone; well: each had ended with success; yielded: by themselves, when asked."""
        self.working = False
        self._recalled = False
        if self._yields and self.card:
            self.card = replace(self.card, state=YIELDED if yielded or well else GONE)
        elif well:
            self._say(DONE)

    def cannot_go_on(self, reason: str) -> None:
        """Something here makes taking part impossible, for good."""
        self._end(Ending(INCOMPLETE, TRY_AGAIN, 0, reason))

    def refused(self, reason: str) -> None:
        """The store will have nothing to do with this node."""
        self._end(Ending(JOB_FAILED, USAGE, 0, reason))

    def stop(self, signal: int, now: float, *, yields: bool = False, step: int = NOW, pace: float = 0.0) -> None:
        """Somebody wants this node to go. Others need to know only if it has a seat among them. If its workers can end
        by themselves, they are let be until the chair has decided.
        """
        if self._leaving_at is not None or self.ending:
            if self._leaving_at is not None and signal == SIGINT:
                self._end(self._farewell)  # asked for the second time: what the others decide does not matter any more
            return
        self._leaving_at = now
        if self.card and self.notice and self.notice.seat_of(self.name) >= 0:
            self.card = replace(self.card, state=LEAVING, signal=signal, yields=yields, step=step, pace=pace)
            self._farewell = Ending(STOPPED, 128 + signal, signal)
        else:
            self._end(Ending(STOPPED, 128 + signal, signal))

    def hear(self, notice: Notice) -> None:
        if notice.follows(self.notice):
            self.notice = notice
            if notice.state == ROLL_CALL and notice.round == self._round:
                self._hang = tuple(fault for fault in notice.faults if is_hang(fault.code, fault.cause))

    # What follows from it.

    def advance(self, now: float, silent_since: float | None, where: str) -> list[Order]:
        """`silent_since`: since when the store, which should answer at `where`, owes an answer; None if it does not."""
        self.deadline = None
        self._mind_the_store(now, silent_since, where)
        self._mind_the_notice(now)
        if self.ending:
            return self._go()
        notice = self.notice
        if notice is not None and notice.round == self._round:
            if notice.state == YIELD:
                return self._yield_to(notice)
            if notice.state == STACKS:
                return self.take_stacks(notice) if notice.seat_of(self.name) >= 0 else []
            if notice.state == ROUND_RUNS and self.asked_for_stacks:
                return self.go_on()
        return self._follow()

    def _follow(self) -> list[Order]:
        notice = self.notice
        if notice is None or self._leaving_at is not None:
            return self._first_offer()
        if notice.state == ROLL_CALL:
            return self._heed(notice)
        if self.working:
            return self._recall() if notice.round > self._round else self.take_look(notice)
        if notice.state == GATHERING and notice.round > self._round:
            return self._offer(notice.round)
        seat = notice.seat_of(self.name)
        is_ready = self.card is not None and self.card.state == READY and self.card.round == notice.round
        if notice.state == ROUND_RUNS and seat >= 0 and is_ready:
            self.working = True
            self._say(RUNNING)
            return [orders.Begin(notice, seat)]
        return self._first_offer()

    def _mind_the_store(self, now: float, silent_since: float | None, where: str) -> None:
        """Until the job has begun a store that is lost is only waited for: its node may be started again."""
        if self.ending or silent_since is None:
            return
        begun = self.notice is not None and bool(self.notice.seats)
        limit = silent_since + (self._lifeline if begun else self._patience)
        if now < limit:
            self._ask_again(limit)
        else:
            words = f"lost the job's store: {where}" if begun else f"no answer from {where}"
            self._end(Ending(INCOMPLETE, TRY_AGAIN, 0, words))

    def _mind_the_notice(self, now: float) -> None:
        notice = self.notice
        if notice is None or self.ending:
            return
        if notice.ending:
            self._end(notice.ending)
        elif self.name in notice.refused:
            self._end(Ending(JOB_FAILED, USAGE, 0, f"the job turned this node away: {notice.refused[self.name].why}"))
        elif self._leaving_at is not None:
            # The others need this card until the chair has decided; after that nobody does.
            if notice.round > self._round or (now >= self._leaving_at + LAST_WORD and notice.state != YIELD):
                self._end(self._farewell)
            elif notice.state != YIELD:
                self._ask_again(self._leaving_at + LAST_WORD)
        elif self.name in notice.left and self.card and (faults := self.card.faults or self._hang):
            self._end(Ending(JOB_FAILED, exit_code_of(faults[0].code), 0, "", faults))

    def _go(self) -> list[Order]:
        assert self.ending is not None
        if self.working:
            return self._recall(orders.Release() if self.ending.kind == SUCCEEDED else orders.Recall())
        if self.over:
            return []
        self.over = True
        return [orders.Leave(self.ending)]

    def _end(self, ending: Ending) -> None:
        self.ending = self.ending or ending

    def _first_offer(self) -> list[Order]:
        return self._offer(0) if self.card is None and self.notice is None else []

    def _offer(self, round_number: int) -> list[Order]:
        if self._offering == round_number:
            return []
        self._offering = round_number
        return [orders.Offer(round_number)]

    def _recall(self, order: Order = orders.Recall()) -> list[Order]:  # noqa: B008  a constant
        if self._recalled:
            return []
        self._recalled = True
        return [order]

    def _yield_to(self, notice: Notice) -> list[Order]:
        if notice.stop_at is None:
            waits = self.card is not None and self.card.state in (READY, RUNNING, SERVING)
            return [orders.LookAtWorkers()] if waits else []
        if self._yields:
            return []
        self._yields = True
        if self.working:
            return [orders.Yield(notice.stop_at)]
        self.swept(well=True)
        return []

    def _heed(self, call: Notice) -> list[Order]:
        card = self.card if self._round == call.round else None
        if card and (not card.clock or card.state in TO_ANSWER):
            return [orders.Answer()]
        if self.working:
            return self._recall()
        return [orders.Testify()] if card and not card.swept else []

    @property
    def _round(self) -> int:
        return self.card.round if self.card else -1

    def _say(self, state: str, faults: tuple[Fault, ...] = ()) -> None:
        if self.card and self.card.state != LEAVING:
            self.card = replace(self.card, state=state, faults=faults or self.card.faults)

    def _ask_again(self, at: float) -> None:
        self.deadline = at if self.deadline is None else min(self.deadline, at)
