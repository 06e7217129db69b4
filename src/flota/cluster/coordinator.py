"""The coordinator: looks at all records and says what the job does next. Decides; never acts, waits or reads the clock.

It is asked again whenever a record has changed or its deadline has passed, and answers from what it sees then, not from
how it came about: a coordinator that took over, or missed something, decides like one that has seen it all. Pure.
"""

from __future__ import annotations

from msgspec.structs import replace

from flota.cluster.admission import Admission
from flota.cluster.all_idle import AllIdle
from flota.cluster.answers import ANSWER_TIMES, next_word
from flota.cluster.job_state import ENDED, GATHERING, ROLL_CALL, RUNNING, STACKS, YIELD, JobState
from flota.cluster.leaving import Leavers
from flota.cluster.lost_nodes import Absences, has_anybody, is_ahead, is_followed
from flota.cluster.node_record import DEAD, DONE, FAILED, READY, SERVING, Present
from flota.cluster.roll_call import Doubt, RollCall
from flota.cluster.seating import lacks_a_role, seat
from flota.cluster.slow_ranks import Pace
from flota.cluster.stack_requests import Looks
from flota.cluster.terms import Terms, has_worked, listed, missing_in_words, names, prospects, were
from flota.errors import TRY_AGAIN
from flota.job.causes import is_hang
from flota.job.report import INCOMPLETE, STOPPED, SUCCEEDED, JobEnding
from flota.job.roles import label
from flota.job.roster import Seat

FIRST_WORD, NEXT_WORD = 2.0, 30.0  # seconds until people are told who is missing, and told again


class Coordinator:
    """`job_state` is what the job does now; `deadline` when to ask again though nothing has changed."""

    def __init__(
        self, terms: Terms, heard: JobState | None, now: float, own: str = "", epoch: float | None = None
    ) -> None:
        """`own`: the coordinator's node, `epoch` what makes a time of day of its own time; `heard`: the last one's
        word.
        """
        self.terms = terms
        self.epoch = epoch
        self.admission = Admission(terms)
        self.absences = Absences(terms.absence)
        self.all_idle = AllIdle()
        self.eyes = (Pace(), Looks())
        # A job_state about others may be all that is left of a dead job: their leases end first, then that is known.
        self.inherits = heard is not None and bool(heard.seats) and heard.seat_of(own) < 0
        self.trusts_from = now + self.admission.ghostly if self.inherits else now
        self.inherited = heard.round if heard else -1
        self.job_state = heard or JobState(GATHERING)
        if heard and heard.phase == GATHERING:
            # The last coordinator may have started this very round without our hearing of it: never two rosters for
            # one.
            self.job_state = replace(heard, round=heard.round + 1)
        self.deadline: float | None = None
        self.gathering_since = self.changed_at = now
        self.next_word = now + FIRST_WORD
        self.members: set[str] = set()
        self.leavers = Leavers()
        self.gone = set(heard.left if heard else ())  # left or failed for good: their records count no more
        self.here: set[str] = set()
        self.done: set[str] = set()  # of the round
        self.called_at = now
        self.roll_call = RollCall(now, None)
        self.begins_at = now  # at the earliest: the next round
        self.doubt = Doubt()

    def decide(self, records: list[Present], now: float, *, trusting: bool = True) -> JobState:
        """`trusting`: whether a record that is not there means that its node is not there either."""
        self.deadline = None
        if self.inherits and is_followed(self.job_state, records, self.inherited):
            self.inherits, self.trusts_from = False, now
        if now < self.trusts_from:
            trusting = False
            self._ask_again(self.trusts_from)
        elif self.inherits:
            self.inherits = False
            if not has_anybody(
                self.job_state, records
            ):  # then it was another run's, and so were its restarts and refusals
                self.job_state = JobState(GATHERING, round=self.job_state.round + 1)
        self.here = {one.node for one in records}
        present, refused = self.admission.admit(records, self.job_state, self.gone, now, trusting=trusting)
        if refused != self.job_state.refused:
            self.job_state = replace(self.job_state, refused=refused)
        self._ask_again(self.admission.deadline)
        if self.job_state.phase == ENDED:
            return self.job_state
        self._catch_up(present, now)
        self._note_members(present, now)
        if self._someone_leaves(records, present, now):
            return self.job_state
        if self.job_state.phase == RUNNING:
            self._look_after_round(records, present, now, trusting=trusting)
        if self.job_state.phase in (YIELD, STACKS):
            self._look_after_answers(records, now, trusting=trusting)
        if self.job_state.phase == ROLL_CALL:
            self._call_roll(records, now, trusting=trusting)
        if self.job_state.phase == GATHERING:
            self._gather(present, now, trusting=trusting)
        return self.job_state

    def _catch_up(self, present: list[Present], now: float) -> None:
        """Rounds come from chairs alone: a record that is ahead has heard a job_state that we have missed."""
        ahead = max((one.record.round for one in present if is_ahead(self.job_state, one)), default=-1)
        if ahead >= 0:
            self.job_state = replace(self.job_state, round=ahead)
            self._next_round("the coordinator was lost", now)

    def _note_members(self, present: list[Present], now: float) -> None:
        members = {one.node for one in present}
        if members != self.members:
            self.members = members
            self.changed_at = now

    # Leaving on request.

    def _someone_leaves(self, records: list[Present], rest: list[Present], now: float) -> bool:
        """Whether a wish to leave is being waited for or was decided on."""
        self.leavers.note(records, {row.node for row in self.job_state.seats} - self.gone, now)
        if not self.leavers.nodes or self.job_state.phase == YIELD:
            return False
        if self.leavers.end_the_job(self.terms, len(rest)):
            reason = f"{were(self.leavers.hosts)} told to stop"
            if self.job_state.phase == RUNNING and self.leavers.yield_:
                self.job_state = replace(self.job_state, phase=YIELD, why=reason)
                self.called_at = now
                return False
            self._end(JobEnding(STOPPED, 128 + self.leavers.signal, self.leavers.signal, reason))
            return True
        if now < self.leavers.complete_at:
            self._ask_again(self.leavers.complete_at)
            return True
        self.gone.update(self.leavers.nodes)
        left, self.leavers = listed(self.leavers.hosts), Leavers()
        if self.job_state.phase != GATHERING:
            self._next_round(f"{left} left", now)
        return False

    # A running round.

    def _look_after_round(self, records: list[Present], present: list[Present], now: float, *, trusting: bool) -> None:
        by_node = {one.node: one for one in records}
        seats = self.job_state.seats
        seated = [by_node[row.node] for row in seats if row.node in by_node]
        of_round = [one for one in seated if one.record.round == self.job_state.round]
        failed = [one for one in of_round if one.record.state == FAILED]
        self.done.update(one.node for one in of_round if one.record.state == DONE)
        serving = {one.node for one in of_round if one.record.state == SERVING}
        lost = self._lost(by_node, now) if trusting else []
        nodes = {row.node for row in seats}
        newcomers = [one for one in present if one.node not in nodes]
        still = self.all_idle.lasts(self.job_state, of_round, self.done, now)
        self._ask_again(self.all_idle.deadline)
        for eye in self.eyes:
            self.job_state = eye.look(self.job_state, of_round, now)
            self._ask_again(eye.deadline)
        # Whoever fails because of another fails later, if only by a moment: the store has the order.
        first = min(
            (*failed, *(one for one in seated if one.record.state == DEAD)), key=lambda one: one.said, default=None
        )
        self._ask_again(self.doubt.lasts_until(failed, now))
        if first and first.record.state == FAILED and self.doubt.is_over(failed, now):
            self.job_state = replace(self.job_state, phase=ROLL_CALL, failures=first.record.failures)
            self.roll_call = RollCall(now, self.epoch)
        elif lost:
            self._after_loss(f"{were([row.host for row in lost])} lost", now)
        elif all(row.node in self.done or row.node in serving for row in seats):
            self._end(JobEnding(SUCCEEDED))
        elif still and not failed:
            self.job_state, self.called_at = replace(self.job_state, phase=STACKS, aborts=False), now
        elif (
            newcomers
            and not failed
            and not self.done
            and not any(has_worked(one.record, self.terms) for one in of_round)
        ):
            # Where some have finished, the others are about to: nobody starts that over for a newcomer.
            came = "joined" if self.terms.elastic else "came for a lost node"
            self._next_round(f"{names(newcomers)} {came}", now)

    def _lost(self, by_node: dict[str, Present], now: float) -> list[Seat]:
        lost = self.absences.lost(self.job_state.seats, by_node, self.done, now)
        self._ask_again(self.absences.deadline)
        return lost

    def _look_after_answers(self, records: list[Present], now: float, *, trusting: bool) -> None:
        """All were asked how far they are, or where their ranks stand."""
        by_node = {one.node: one for one in records}
        lost = self._lost(by_node, now) if trusting else []
        late = self.called_at + ANSWER_TIMES[self.job_state.phase]
        word = next_word(self.job_state, by_node, {row.node for row in lost}, self.done, late=now >= late)
        if isinstance(word, JobEnding):
            self._end(word)
        elif lost and self.job_state.phase == STACKS:
            self._after_loss(f"{were([row.host for row in lost])} lost", now)
        elif word and word.phase == ROLL_CALL:
            self.job_state, self.roll_call = word, RollCall(now, self.epoch)
        else:
            self.job_state = word or self.job_state
            self._ask_again(late if now < late else None)

    def _call_roll(self, records: list[Present], now: float, *, trusting: bool) -> None:
        """Whoever fails because a node is dead may say so before the store knows of the dead: so everybody is asked to
        answer, and if one never does, its loss came first. One that answered, or whose shepherd did, was alive."""
        by_node = {one.node: one for one in records}
        seated = {row.node for row in self.job_state.seats}
        of_round = [one for one in records if one.node in seated and one.record.round == self.job_state.round]
        self.roll_call.hear(of_round, now)
        silent = seated - self.roll_call.answered - self.done
        lost = [row for row in self._lost(by_node, now) if row.node in silent] if trusting else []
        give_up = self.roll_call.called_at + self.admission.ghostly + self.terms.absence
        if lost:
            self._after_loss(f"{were([row.host for row in lost])} lost", now)
        elif not silent or now >= give_up:
            self._after_failure(of_round, now)
        else:
            self._ask_again(give_up)

    def _after_failure(self, of_round: list[Present], now: float) -> None:
        found = self.roll_call.find(of_round, self.job_state, self.terms.policy)
        decision, culprit = found.decision, found.culprit
        wait = self.roll_call.wait_until(of_round, now, culprit, restarts=found.leaves or decision.restarts)
        if now < wait:
            self._ask_again(wait)
        elif found.leaves:
            self.gone.add(found.node)
            what = "hung" if is_hang(culprit.code, culprit.cause) else "failed"
            self._next_round(f"{found.host} left after {label(culprit.role, culprit.rank)} {what}", now)
        elif decision.restarts:
            self._next_round("", now, counted=True)
            self.begins_at = now + decision.delay
            failures, past = (culprit._replace(said=()),), decision.history
            self.job_state = replace(self.job_state, failures=failures, past=past, delay=decision.delay)
        else:
            self._end(found.ending)

    def _after_loss(self, reason: str, now: float) -> None:
        if self.terms.policy.enabled or self.terms.elastic:
            self._next_round(reason, now)
        else:
            self._end(JobEnding(INCOMPLETE, TRY_AGAIN, 0, reason))

    def _next_round(self, why: str, now: float, *, counted: bool = False) -> None:
        last = self.job_state
        self.gathering_since = now
        self.next_word = now + FIRST_WORD
        self.done.clear()
        self.doubt = Doubt()
        self.job_state = replace(
            last,
            phase=GATHERING,
            round=last.round + 1,
            attempt=last.attempt + counted,
            why=why,
            failures=(),
            missing="",
            delay=0.0,
            slow=(),
            left=tuple(sorted(self.gone & self.here)),
        )

    def _end(self, ending: JobEnding) -> None:
        self.job_state = replace(self.job_state, phase=ENDED, ending=ending, missing="")

    # Gathering.

    def _gather(self, present: list[Present], now: float, *, trusting: bool) -> None:
        present = [one for one in present if one.node not in self.gone]
        if self._may_start(present, now) and trusting:
            seats = seat(present, self.job_state.seats, by_address=self.terms.by_address)
            self.job_state = replace(self.job_state, phase=RUNNING, seats=seats, why="", failures=(), missing="")
            return
        give_up = self.gathering_since + self.terms.join_timeout
        if now >= give_up:
            words = missing_in_words(present, self.terms)
            self._end(JobEnding(INCOMPLETE, TRY_AGAIN, 0, f"the nodes did not meet in time: {words}"))
            return
        self._ask_again(give_up)
        self._say_who_is_missing(present, now)

    def _may_start(self, present: list[Present], now: float) -> bool:
        """At MAX at once; from MIN on when nobody has come or gone for the elastic timeout."""
        ready = all(self._is_ready(one) for one in present) and not lacks_a_role(present, self.job_state.seats)
        if not ready or len(present) < self.terms.least:
            return False
        settled = self.changed_at + (0.0 if len(present) == self.terms.most else self.terms.elastic_timeout)
        starts_at = max(self.begins_at, settled)
        self._ask_again(starts_at if now < starts_at else None)
        return now >= starts_at

    def _say_who_is_missing(self, present: list[Present], now: float) -> None:
        if now >= self.next_word:
            self.next_word = now + NEXT_WORD
            late = [one.record.host for one in present if not self._is_ready(one)]
            begins = max(0.0, self.changed_at + self.terms.elastic_timeout - now)
            gives_up = self.gathering_since + self.terms.join_timeout - now
            self.job_state = replace(self.job_state, missing=prospects(present, self.terms, late, begins, gives_up))
        self._ask_again(self.next_word)

    def _is_ready(self, one: Present) -> bool:
        return one.record.state == READY and one.record.round == self.job_state.round

    def _ask_again(self, at: float | None) -> None:
        self.deadline = min((time for time in (at, self.deadline) if time is not None), default=None)
