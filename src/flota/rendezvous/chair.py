"""The chair: looks at all cards and says what the job does next. Decides; never acts, waits or reads the clock.

It is asked again whenever a card has changed or its deadline has passed, and answers from what it sees then, not from
how it came about: a chair that took over, or missed something, decides like one that has seen it all.
"""

from __future__ import annotations

from msgspec.structs import replace

from flota.errors import TRY_AGAIN
from flota.job.report import INCOMPLETE, STOPPED, SUCCEEDED
from flota.job.roles import label
from flota.rendezvous.absences import Absences, has_anybody, is_ahead, is_followed
from flota.rendezvous.admission import Admission
from flota.rendezvous.answers import ANSWER_TIMES, next_word
from flota.rendezvous.cards import DEAD, DONE, FAILED, READY, SERVING, Present
from flota.rendezvous.hanging import Lull
from flota.rendezvous.inquest import Doubt, Inquest
from flota.rendezvous.leaving import Leavers
from flota.rendezvous.looking import Looks
from flota.rendezvous.notices import ENDED, GATHERING, ROLL_CALL, RUNNING, STACKS, YIELD, Ending, Notice, Past, SeatRow
from flota.rendezvous.pacing import Pace
from flota.rendezvous.seating import lacks_a_role, seat
from flota.rendezvous.terms import Terms, has_worked, listed, missing_in_words, names, prospects, were
from flota.supervise.blame import is_hang

FIRST_WORD, NEXT_WORD = 2.0, 30.0  # seconds until people are told who is missing, and told again


class Chair:
    """`notice` is what the job does now; `deadline` when to ask again though nothing has changed."""

    def __init__(
        self, terms: Terms, heard: Notice | None, now: float, own: str = "", epoch: float | None = None
    ) -> None:
        """`own`: the chair's node, `epoch` what makes a time of day of its own time; `heard`: the last one's word."""
        self.terms = terms
        self.epoch = epoch
        self.admission = Admission(terms)
        self.absences = Absences(terms.absence)
        self.lull = Lull()
        self.eyes = (Pace(), Looks())
        # A notice about others may be all that is left of a dead job: their leases end first, then that is known.
        self.inherits = heard is not None and bool(heard.seats) and heard.seat_of(own) < 0
        self.trusts_from = now + self.admission.ghostly if self.inherits else now
        self.inherited = heard.round if heard else -1
        self.notice = heard or Notice(GATHERING)
        if heard and heard.state == GATHERING:
            # The last chair may have started this very round without our hearing of it: never two rosters for one.
            self.notice = replace(heard, round=heard.round + 1)
        self.deadline: float | None = None
        self.gathering_since = self.changed_at = now
        self.next_word = now + FIRST_WORD
        self.members: set[str] = set()
        self.leavers = Leavers()
        self.gone = set(heard.left if heard else ())  # left or failed for good: their cards count no more
        self.here: set[str] = set()
        self.done: set[str] = set()  # of the round
        self.called_at = now
        self.inquest = Inquest(now, None)
        self.begins_at = now  # at the earliest: the next round
        self.doubt = Doubt()

    def judge(self, cards: list[Present], now: float, *, trusting: bool = True) -> Notice:
        """`trusting`: whether a card that is not there means that its node is not there either."""
        self.deadline = None
        if self.inherits and is_followed(self.notice, cards, self.inherited):
            self.inherits, self.trusts_from = False, now
        if now < self.trusts_from:
            trusting = False
            self._ask_again(self.trusts_from)
        elif self.inherits:
            self.inherits = False
            if not has_anybody(self.notice, cards):  # then it was another run's, and so were its restarts and refusals
                self.notice = Notice(GATHERING, round=self.notice.round + 1)
        self.here = {one.node for one in cards}
        present, refused = self.admission.admit(cards, self.notice, self.gone, now, trusting=trusting)
        if refused != self.notice.refused:
            self.notice = replace(self.notice, refused=refused)
        self._ask_again(self.admission.deadline)
        if self.notice.state == ENDED:
            return self.notice
        self._catch_up(present, now)
        self._note_members(present, now)
        if self._someone_leaves(cards, present, now):
            return self.notice
        if self.notice.state == RUNNING:
            self._look_after_round(cards, present, now, trusting=trusting)
        if self.notice.state in (YIELD, STACKS):
            self._look_after_answers(cards, now, trusting=trusting)
        if self.notice.state == ROLL_CALL:
            self._call_roll(cards, now, trusting=trusting)
        if self.notice.state == GATHERING:
            self._gather(present, now, trusting=trusting)
        return self.notice

    def _catch_up(self, present: list[Present], now: float) -> None:
        """Rounds come from chairs alone: a card that is ahead has heard a notice that we have missed."""
        ahead = max((one.card.round for one in present if is_ahead(self.notice, one)), default=-1)
        if ahead >= 0:
            self.notice = replace(self.notice, round=ahead)
            self._next_round("the chair was lost", now)

    def _note_members(self, present: list[Present], now: float) -> None:
        members = {one.node for one in present}
        if members != self.members:
            self.members = members
            self.changed_at = now

    # Leaving on request.

    def _someone_leaves(self, cards: list[Present], rest: list[Present], now: float) -> bool:
        """Whether a wish to leave is being waited for or was decided on."""
        self.leavers.note(cards, {row.node for row in self.notice.seats} - self.gone, now)
        if not self.leavers.nodes or self.notice.state == YIELD:
            return False
        if self.leavers.end_the_job(self.terms, len(rest)):
            reason = f"{were(self.leavers.hosts)} told to stop"
            if self.notice.state == RUNNING and self.leavers.yield_:
                self.notice = replace(self.notice, state=YIELD, why=reason)
                self.called_at = now
                return False
            self._end(Ending(STOPPED, 128 + self.leavers.signal, self.leavers.signal, reason))
            return True
        if now < self.leavers.complete_at:
            self._ask_again(self.leavers.complete_at)
            return True
        self.gone.update(self.leavers.nodes)
        left, self.leavers = listed(self.leavers.hosts), Leavers()
        if self.notice.state != GATHERING:
            self._next_round(f"{left} left", now)
        return False

    # A running round.

    def _look_after_round(self, cards: list[Present], present: list[Present], now: float, *, trusting: bool) -> None:
        by_node = {one.node: one for one in cards}
        seats = self.notice.seats
        seated = [by_node[row.node] for row in seats if row.node in by_node]
        of_round = [one for one in seated if one.card.round == self.notice.round]
        failed = [one for one in of_round if one.card.state == FAILED]
        self.done.update(one.node for one in of_round if one.card.state == DONE)
        serving = {one.node for one in of_round if one.card.state == SERVING}
        lost = self._lost(by_node, now) if trusting else []
        nodes = {row.node for row in seats}
        newcomers = [one for one in present if one.node not in nodes]
        still = self.lull.lasts(self.notice, of_round, self.done, now)
        self._ask_again(self.lull.deadline)
        for eye in self.eyes:
            self.notice = eye.look(self.notice, of_round, now)
            self._ask_again(eye.deadline)
        # Whoever fails because of another fails later, if only by a moment: the store has the order.
        first = min(
            (*failed, *(one for one in seated if one.card.state == DEAD)), key=lambda one: one.said, default=None
        )
        self._ask_again(self.doubt.lasts_until(failed, now))
        if first and first.card.state == FAILED and self.doubt.is_over(failed, now):
            self.notice = replace(self.notice, state=ROLL_CALL, faults=first.card.faults)
            self.inquest = Inquest(now, self.epoch)
        elif lost:
            self._after_loss(f"{were([row.host for row in lost])} lost", now)
        elif all(row.node in self.done or row.node in serving for row in seats):
            self._end(Ending(SUCCEEDED))
        elif still and not failed:
            self.notice, self.called_at = replace(self.notice, state=STACKS, aborts=False), now
        elif (
            newcomers and not failed and not self.done and not any(has_worked(one.card, self.terms) for one in of_round)
        ):
            # Where some have finished, the others are about to: nobody starts that over for a newcomer.
            came = "joined" if self.terms.elastic else "came for a lost node"
            self._next_round(f"{names(newcomers)} {came}", now)

    def _lost(self, by_node: dict[str, Present], now: float) -> list[SeatRow]:
        lost = self.absences.lost(self.notice.seats, by_node, self.done, now)
        self._ask_again(self.absences.deadline)
        return lost

    def _look_after_answers(self, cards: list[Present], now: float, *, trusting: bool) -> None:
        """All were asked how far they are, or where their ranks stand."""
        by_node = {one.node: one for one in cards}
        lost = self._lost(by_node, now) if trusting else []
        late = self.called_at + ANSWER_TIMES[self.notice.state]
        word = next_word(self.notice, by_node, {row.node for row in lost}, self.done, late=now >= late)
        if isinstance(word, Ending):
            self._end(word)
        elif lost and self.notice.state == STACKS:
            self._after_loss(f"{were([row.host for row in lost])} lost", now)
        elif word and word.state == ROLL_CALL:
            self.notice, self.inquest = word, Inquest(now, self.epoch)
        else:
            self.notice = word or self.notice
            self._ask_again(late if now < late else None)

    def _call_roll(self, cards: list[Present], now: float, *, trusting: bool) -> None:
        """Whoever fails because a node is dead may say so before the store knows of the dead: so everybody is asked to
        answer, and if one never does, its loss came first. One that answered, or whose shepherd did, was alive."""
        by_node = {one.node: one for one in cards}
        seated = {row.node for row in self.notice.seats}
        of_round = [one for one in cards if one.node in seated and one.card.round == self.notice.round]
        self.inquest.hear(of_round, now)
        silent = seated - self.inquest.answered - self.done
        lost = [row for row in self._lost(by_node, now) if row.node in silent] if trusting else []
        give_up = self.inquest.called_at + self.admission.ghostly + self.terms.absence
        if lost:
            self._after_loss(f"{were([row.host for row in lost])} lost", now)
        elif not silent or now >= give_up:
            self._after_failure(of_round, now)
        else:
            self._ask_again(give_up)

    def _after_failure(self, of_round: list[Present], now: float) -> None:
        found = self.inquest.find(of_round, self.notice, self.terms.policy)
        decision, culprit = found.decision, found.culprit
        wait = self.inquest.wait_until(of_round, now, culprit, restarts=found.leaves or decision.restarts)
        if now < wait:
            self._ask_again(wait)
        elif found.leaves:
            self.gone.add(found.node)
            what = "hung" if is_hang(culprit.code, culprit.cause) else "failed"
            self._next_round(f"{found.host} left after {label(culprit.role, culprit.rank)} {what}", now)
        elif decision.restarts:
            self._next_round("", now, counted=True)
            self.begins_at = now + decision.delay
            faults, past = (replace(culprit, said=()),), Past(*decision.history)
            self.notice = replace(self.notice, faults=faults, past=past, delay=decision.delay)
        else:
            self._end(found.ending)

    def _after_loss(self, reason: str, now: float) -> None:
        if self.terms.policy.enabled or self.terms.elastic:
            self._next_round(reason, now)
        else:
            self._end(Ending(INCOMPLETE, TRY_AGAIN, 0, reason))

    def _next_round(self, why: str, now: float, *, counted: bool = False) -> None:
        last = self.notice
        self.gathering_since = now
        self.next_word = now + FIRST_WORD
        self.done.clear()
        self.doubt = Doubt()
        self.notice = replace(
            last,
            state=GATHERING,
            round=last.round + 1,
            attempt=last.attempt + counted,
            why=why,
            faults=(),
            missing="",
            delay=0.0,
            slow=(),
            left=tuple(sorted(self.gone & self.here)),
        )

    def _end(self, ending: Ending) -> None:
        self.notice = replace(self.notice, state=ENDED, ending=ending, missing="")

    # Gathering.

    def _gather(self, present: list[Present], now: float, *, trusting: bool) -> None:
        present = [one for one in present if one.node not in self.gone]
        if self._may_start(present, now) and trusting:
            seats = seat(present, self.notice.seats, by_address=self.terms.by_address)
            self.notice = replace(self.notice, state=RUNNING, seats=seats, why="", faults=(), missing="")
            return
        give_up = self.gathering_since + self.terms.join_timeout
        if now >= give_up:
            words = missing_in_words(present, self.terms)
            self._end(Ending(INCOMPLETE, TRY_AGAIN, 0, f"the nodes did not meet in time: {words}"))
            return
        self._ask_again(give_up)
        self._say_who_is_missing(present, now)

    def _may_start(self, present: list[Present], now: float) -> bool:
        """At MAX at once; from MIN on when nobody has come or gone for the elastic timeout."""
        ready = all(self._is_ready(one) for one in present) and not lacks_a_role(present, self.notice.seats)
        if not ready or len(present) < self.terms.least:
            return False
        settled = self.changed_at + (0.0 if len(present) == self.terms.most else self.terms.elastic_timeout)
        starts_at = max(self.begins_at, settled)
        self._ask_again(starts_at if now < starts_at else None)
        return now >= starts_at

    def _say_who_is_missing(self, present: list[Present], now: float) -> None:
        if now >= self.next_word:
            self.next_word = now + NEXT_WORD
            late = [one.card.host for one in present if not self._is_ready(one)]
            begins = max(0.0, self.changed_at + self.terms.elastic_timeout - now)
            gives_up = self.gathering_since + self.terms.join_timeout - now
            self.notice = replace(self.notice, missing=prospects(present, self.terms, late, begins, gives_up))
        self._ask_again(self.next_word)

    def _is_ready(self, one: Present) -> bool:
        return one.card.state == READY and one.card.round == self.notice.round

    def _ask_again(self, at: float | None) -> None:
        self.deadline = min((time for time in (at, self.deadline) if time is not None), default=None)
