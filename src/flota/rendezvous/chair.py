"""The chair: looks at all cards and says what the job does next. Decides; never acts, waits or reads the clock.

It is asked again whenever a card has changed or its deadline has passed, and answers from what it sees then, not from
how it came about: a chair that took over, or missed something, decides like one that has seen it all.
"""

from __future__ import annotations

from msgspec.structs import replace

from flota.errors import TRY_AGAIN
from flota.job.report import FAILED as JOB_FAILED
from flota.job.report import INCOMPLETE, STOPPED, SUCCEEDED, exit_code_of
from flota.job.roles import label
from flota.rendezvous.absences import Absences
from flota.rendezvous.admission import Admission
from flota.rendezvous.cards import DEAD, DONE, FAILED, HERE, LEAVING, READY, SERVING, Card, Present
from flota.rendezvous.notices import ENDED, GATHERING, ROLL_CALL, RUNNING, YIELD, Ending, Notice, SeatRow
from flota.rendezvous.seating import lacks_a_role, seat
from flota.rendezvous.terms import Terms, listed, missing_in_words, names, prospects, were
from flota.rendezvous.yielding import ANSWER_TIME, next_word
from flota.supervise.policy import should_restart

SIGTERM = 15
LEAVE_TOGETHER = 1.0  # seconds in which others may get the same SIGTERM: a scheduler signals all
FIRST_WORD, NEXT_WORD = 2.0, 30.0  # seconds until people are told who is missing, and told again


class Chair:
    """`notice` is what the job does now; `deadline` when to ask again though nothing has changed."""

    def __init__(self, terms: Terms, heard: Notice | None, now: float, own: str = "") -> None:
        """`own`: the name of the node that has the chair; `heard`: what the last chair said."""
        self.terms = terms
        self.admission = Admission(terms)
        self.absences = Absences(terms.absence)
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
        self.leavers: dict[str, Present] = {}
        self.leaving_since: float | None = None
        self.gone = set(heard.left if heard else ())  # left or failed for good: their cards count no more
        self.here: set[str] = set()
        self.done: set[str] = set()  # of the round
        self.answered: set[str] = set()  # the roll call
        self.called_at = now

    def judge(self, cards: list[Present], now: float, *, trusting: bool = True) -> Notice:
        """`trusting`: whether a card that is not there means that its node is not there either."""
        self.deadline = None
        if self.inherits and self._is_followed(cards):
            self.inherits, self.trusts_from = False, now
        if now < self.trusts_from:
            trusting = False
            self._ask_again(self.trusts_from)
        elif self.inherits:
            self._look_whether_anybody_lives(cards)
        self.here = {one.node for one in cards}
        present, refused = self.admission.admit(cards, self.notice, self.gone, now, trusting=trusting)
        if refused != self.notice.refused:
            self.notice = replace(self.notice, refused=refused)
        if self.admission.deadline is not None:
            self._ask_again(self.admission.deadline)
        if self.notice.state == ENDED:
            return self.notice
        self._catch_up(present, now)
        self._note_members(present, now)
        if self._someone_leaves(cards, present, now):
            return self.notice
        if self.notice.state == RUNNING:
            self._look_after_round(cards, present, now, trusting=trusting)
        if self.notice.state == YIELD:
            self._look_after_yielding(cards, now, trusting=trusting)
        if self.notice.state == ROLL_CALL:
            self._call_roll(cards, now, trusting=trusting)
        if self.notice.state == GATHERING:
            self._gather(present, now, trusting=trusting)
        return self.notice

    def _is_followed(self, cards: list[Present]) -> bool:
        """Whether a node of the round that was found has gone on to one of ours: then it is a living job's."""
        seated = {row.node for row in self.notice.seats}
        return any(one.node in seated and one.card.round > self.inherited for one in cards)

    def _look_whether_anybody_lives(self, cards: list[Present]) -> None:
        """If nobody of the round is left, it was another run's, and so were its restarts and refusals."""
        self.inherits = False
        here = {one.node for one in cards if one.card.state != DEAD}
        if not any(row.node in here for row in self.notice.seats):
            self.notice = Notice(GATHERING, round=self.notice.round + 1)

    def _catch_up(self, present: list[Present], now: float) -> None:
        """Rounds come from chairs alone: a card that is ahead has heard a notice that we have missed."""
        ahead = max((one.card.round for one in present if self._is_ahead(one)), default=-1)
        if ahead >= 0:
            self.notice = replace(self.notice, round=ahead)
            self._next_round("the chair was lost", now)

    def _is_ahead(self, one: Present) -> bool:
        begun = self.notice.state == GATHERING and one.card.state != READY and one.card.round == self.notice.round
        return one.card.round > self.notice.round or begun

    def _note_members(self, present: list[Present], now: float) -> None:
        members = {one.node for one in present}
        if members != self.members:
            self.members = members
            self.changed_at = now

    # Leaving on request.

    def _someone_leaves(self, cards: list[Present], rest: list[Present], now: float) -> bool:
        """Whether a wish to leave is being waited for or was decided on."""
        seated = {row.node for row in self.notice.seats} - self.gone  # others may go as they came
        leaving = {one.node: one for one in cards if one.card.state == LEAVING and one.node in seated}
        self.leavers.update(leaving)
        if not self.leavers or self.notice.state == YIELD:
            return False
        if self.leaving_since is None:
            self.leaving_since = now
        first = next(iter(self.leavers.values())).card
        all_stop = not self.terms.elastic or any(
            one.card.signal != SIGTERM or one.card.serves for one in self.leavers.values()
        )
        if all_stop or len(rest) < self.terms.least:
            reason = f"{were([one.card.host for one in self.leavers.values()])} told to stop"
            if self.notice.state == RUNNING and all(one.card.yields for one in self.leavers.values()):
                self.notice = replace(self.notice, state=YIELD, why=reason)
                self.called_at = now
                return False
            self._end(Ending(STOPPED, 128 + first.signal, first.signal, reason))
            return True
        if now < self.leaving_since + LEAVE_TOGETHER:
            self._ask_again(self.leaving_since + LEAVE_TOGETHER)
            return True
        left = listed([one.card.host for one in self.leavers.values()])
        self.gone.update(self.leavers)
        self.leavers.clear()
        self.leaving_since = None
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
        # Whoever fails because of another fails later, if only by a moment: the store has the order.
        first = min(
            (*failed, *(one for one in seated if one.card.state == DEAD)), key=lambda one: one.said, default=None
        )
        if first and first.card.state == FAILED:
            self.notice = replace(self.notice, state=ROLL_CALL, faults=first.card.faults)
            self.answered, self.called_at = set(), now
        elif lost:
            self._after_loss(f"{were([row.host for row in lost])} lost", now)
        elif all(row.node in self.done or row.node in serving for row in seats):
            self._end(Ending(SUCCEEDED))
        elif newcomers and not self.done and not any(self._has_worked(one.card) for one in of_round):
            # Where some have finished, the others are about to: nobody starts that over for a newcomer.
            came = "joined" if self.terms.elastic else "came for a lost node"
            self._next_round(f"{names(newcomers)} {came}", now)

    def _has_worked(self, card: Card) -> bool:
        """Whether its own work is done, and it is there for others only."""
        work = (count for number, count in enumerate(card.counts) if number not in self.terms.serving)
        return card.state == SERVING and any(work)

    def _lost(self, by_node: dict[str, Present], now: float) -> list[SeatRow]:
        lost = self.absences.lost(self.notice.seats, by_node, self.done, now)
        if self.absences.deadline is not None:
            self._ask_again(self.absences.deadline)
        return lost

    def _look_after_yielding(self, cards: list[Present], now: float, *, trusting: bool) -> None:
        by_node = {one.node: one for one in cards}
        lost = {row.node for row in self._lost(by_node, now)} if trusting else set()
        word = next_word(self.notice, by_node, lost, self.done, late=now >= self.called_at + ANSWER_TIME)
        if isinstance(word, Ending):
            self._end(word)
        else:
            self.notice = word or self.notice
            if now < self.called_at + ANSWER_TIME:
                self._ask_again(self.called_at + ANSWER_TIME)

    def _call_roll(self, cards: list[Present], now: float, *, trusting: bool) -> None:
        """Whoever fails because a node is dead may say so before the store knows of the dead: so everybody is asked to
        answer, and if one never does, its loss came first. One that answered, or whose shepherd did, was alive."""
        by_node = {one.node: one for one in cards}
        of_round = (one for one in cards if one.card.round == self.notice.round)
        self.answered.update(one.node for one in of_round if one.card.state in (HERE, FAILED, DONE, DEAD))
        silent = {row.node for row in self.notice.seats} - self.answered - self.done
        lost = [row for row in self._lost(by_node, now) if row.node in silent] if trusting else []
        give_up = self.called_at + self.admission.ghostly + self.terms.absence
        if lost:
            self._after_loss(f"{were([row.host for row in lost])} lost", now)
        elif not silent or now >= give_up:
            self._after_failure(cards, now)
        else:
            self._ask_again(give_up)

    def _after_failure(self, cards: list[Present], now: float) -> None:
        faults = self.notice.faults
        failed = next((one for one in cards if one.card.faults == faults), None)
        policy = self.terms.policy
        leaves = policy.enabled and policy.elastic_level == 0 and not faults[0].final
        if leaves and failed and not failed.card.serves:
            self.gone.add(failed.node)
            self._next_round(f"{failed.card.host} left after {label(faults[0].role, faults[0].rank)} failed", now)
        elif should_restart(faults[0].cause, self.notice.attempt, policy, final=faults[0].final):
            self._next_round("", now, counted=True)
        else:
            self._end(Ending(JOB_FAILED, exit_code_of(faults[0].code), 0, "", faults))

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
        self.notice = replace(
            last,
            state=GATHERING,
            round=last.round + 1,
            attempt=last.attempt + counted,
            why=why,
            faults=last.faults if counted else (),
            missing="",
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
        if not all(self._is_ready(one) for one in present) or lacks_a_role(present, self.notice.seats):
            return False
        if len(present) == self.terms.most:
            return True
        if len(present) < self.terms.least:
            return False
        settled = self.changed_at + self.terms.elastic_timeout
        if now < settled:
            self._ask_again(settled)
        return now >= settled

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

    def _ask_again(self, at: float) -> None:
        self.deadline = at if self.deadline is None else min(self.deadline, at)
