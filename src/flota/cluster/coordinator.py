"""The coordinator: reads all node records and decides what the job does next. It never acts, waits or reads the clock.

It decides again whenever a record has changed or its deadline has passed, from the current records and not from their
history: a coordinator that took over, or missed something, decides as one that has seen everything. Its behaviour is a
table: one function for each finding, in this order, and each phase of the job. Pure.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from flota.cluster.admission import Admission
from flota.cluster.agreed_snapshots import agree_on_snapshots
from flota.cluster.differences import find_problems, with_unreached
from flota.cluster.gathering import Gathering, hosts_in_words, joined_in_words
from flota.cluster.job_state import DECIDING, ENDED, GATHERING, PHASES, RUNNING, JobState, next_round, with_restart
from flota.cluster.leaving import LeavingNodes
from flota.cluster.lost_nodes import InheritedState, LostNodes, ending_after_loss, is_ahead, take_over
from flota.cluster.node_record import DEAD, FAILED, RESTART, SERVING, Present
from flota.cluster.questions import PREEMPTION, QUESTIONS, ROLL_CALL, STACKS, find_requested
from flota.cluster.seating import seat
from flota.cluster.spares import Spares, choose_nodes
from flota.cluster.survey import take_survey
from flota.cluster.terms import Terms, has_finished_work
from flota.cluster.view import View, answers_to, take_view
from flota.errors import TRY_AGAIN, USAGE
from flota.hangs.question import AllIdle
from flota.humanize import list_in_words
from flota.job import survey_outcomes as outcomes
from flota.job.report import FAILED as FAILED_JOB
from flota.job.report import INCOMPLETE, RESTART_REQUESTED, SUCCEEDED, FailedWorker, JobEnding, exception_message
from flota.job.roster import Seat
from flota.job.survey_outcomes import Question, Result
from flota.stragglers.detector import SlowRankWatch
from flota.supervise.supervisor import FIRST_FAILURE_WAIT


class Coordinator:
    """`job_state`: what the job does now. `deadline`: when to decide again even if nothing changes."""

    def __init__(
        self, terms: Terms, found: JobState | None, now: float, own: str = "", epoch: float | None = None
    ) -> None:
        """`own`: the coordinator's node. `epoch`: added to its clock gives the time of day. `found`: the last job state
        of the previous coordinator."""
        self.terms, self.own, self.epoch = terms, own, epoch
        self.admission = Admission(terms)
        self.lost_nodes = LostNodes(terms.absence)
        self.all_idle, self.slow_ranks, self.spares = AllIdle(), SlowRankWatch(), Spares(terms)
        self.inherited = InheritedState(found, own, now, self.admission.longest_stale)
        self.blank = JobState(GATHERING, attempt=terms.policy.earlier)  # before the first decision
        self.job_state = take_over(found) if found else self.blank
        self.deadline: float | None = None
        self.gathering = Gathering(terms, now)
        self.leaving = LeavingNodes()
        self.gone = set(found.left if found else ())  # left, or failed for good: their records are ignored
        self.here: set[str] = set()
        self.present: list[Present] = []  # nodes that take part
        self.done: set[str] = set()  # nodes of the round whose workers have all succeeded
        self.round_began = now  # as far as this coordinator knows
        self.failed_since: float | None = None  # when the first failure of the round was seen
        self.asked_at = now  # when the open question was asked, and when each answer was first seen
        self.heard_at: dict[str, float] = {}
        self.earlier_answers: dict[str, Any] = {}  # to the question that the open one follows up
        self.asked_here = False

    def decide(self, records: list[Present], now: float, *, trusting: bool = True) -> JobState:
        """`trusting`: a missing record means that its node is lost."""
        self.deadline = None
        confirmed = self.inherited.confirm(self.job_state, self.blank, records, now)
        self._wake_at(self.inherited.deadline)
        trusting = trusting and confirmed is not None
        self.job_state = confirmed or self.job_state
        self.here = {one.node for one in records if one.record.state != DEAD}
        self.present, refused = self.admission.admit(records, self.job_state, self.gone, now, trusting=trusting)
        if refused != self.job_state.refused:
            self.job_state = replace(self.job_state, refused=refused)
        self._wake_at(self.admission.deadline)
        self.gathering.note(self.present, now)
        place = None
        for finding, sees in FINDINGS.items():
            if place != (self.job_state.phase, self.job_state.round):
                place = self.job_state.phase, self.job_state.round
                view = take_view(self, records, now, trusting=trusting)
                self._wake_at(view.more_lost_at)
            cell = TABLE[self.job_state.phase, finding]
            if cell is not nothing and sees(self, view) and cell(self, view):
                break
        self.job_state = self.spares.note(self.job_state, self.present)
        return self.job_state

    # Findings.

    def _sees_later_round(self, view: View) -> bool:
        """Only coordinators begin rounds: a record of a later round follows a job state that this node has missed."""
        return any(is_ahead(self.job_state, one) for one in view.present)

    def _sees_leaving_node(self, view: View) -> bool:
        self.leaving.note(view.records, self._seated() - self.gone, view.now)
        return bool(self.leaving.nodes)

    def _sees_failure(self, view: View) -> bool:
        """While only secondary failures are known, the first failure may be reported soon, and a roll call would stop
        that worker. A node that fails because of a dead node fails after it: the store's revisions give the order."""
        if not view.failed:
            return False
        self.failed_since = view.now if self.failed_since is None else self.failed_since
        settled_at = self.failed_since + FIRST_FAILURE_WAIT
        if view.now < settled_at and all(one.is_secondary for node in view.failed for one in node.record.failures):
            self._wake_at(settled_at)
            return False
        seated = self._seated()
        dead = [one for one in view.records if one.node in seated and one.record.state == DEAD]
        return min((*view.failed, *dead), key=lambda one: one.modified).record.state == FAILED

    def _sees_unreached(self, view: View) -> bool:
        return any(one.record.unreached for one in view.of_round)

    def _sees_all_done(self, view: View) -> bool:
        serving = {one.node for one in view.of_round if one.record.state == SERVING}
        return all(row.node in self.done or row.node in serving for row in self.job_state.seats)

    def _sees_all_idle(self, view: View) -> bool:
        idle = self.all_idle.check(self.job_state.seats, view.of_round, self.done, view.now)
        self._wake_at(self.all_idle.deadline)
        return idle and not view.failed

    def _sees_newcomer(self, view: View) -> bool:
        return self.spares.has_ready_newcomer(self.job_state, view.present) and self._may_restart(view)

    def _sees_straggler(self, view: View) -> bool:
        found = self.spares.find_straggler(self.job_state, view.present, view.now)
        self._wake_at(self.spares.deadline)
        return found and self._may_restart(view)

    def _may_restart(self, view: View) -> bool:
        """If some nodes have finished, the others are about to: the round is not restarted for other nodes then."""
        worked = self.done or any(has_finished_work(one.record, self.terms) for one in view.of_round)
        return not view.failed and not worked

    def _sees_restart_request(self, view: View) -> bool:
        return any(one.record.requests.get(RESTART) == self.job_state.round for one in view.of_round)

    def _ends_with_leaving(self, view: View) -> bool:
        return self.leaving.should_end_job(self.terms, view, self._seated() - self.gone)

    def _seated(self) -> set[str]:
        return {row.node for row in self.job_state.seats}

    # Reactions. True: later findings are skipped this time.

    def _catch_up(self, view: View) -> None:
        ahead = [one.record for one in view.present if is_ahead(self.job_state, one)]
        run_name = self.job_state.run_name or max(record.run_name for record in ahead)
        self.job_state = replace(self.job_state, round=max(record.round for record in ahead), run_name=run_name)
        self._next_round("the coordinator was lost", view.now)

    def _let_leave(self, view: View) -> bool:
        """Continue without the leaving nodes, once all of them are known, or end the job."""
        if self._ends_with_leaving(view):
            self._end(self.leaving.ending)
            return True
        if view.now < self.leaving.complete_at:
            self._wake_at(self.leaving.complete_at)
            return True
        left, self.leaving = self.leaving, LeavingNodes()
        self.gone.update(left.nodes)
        # The others do not need a node whose workers have succeeded.
        if self.job_state.phase != GATHERING and not left.nodes.keys() <= self.done:
            self._next_round(f"{list_in_words(left.hosts)} left", view.now)
        return False

    def _let_leave_or_preempt(self, view: View) -> bool:
        """The ranks of an elastic job that continues do not save: it may lose a node at any time."""
        ends = self._ends_with_leaving(view)
        if (ends or not self.terms.elastic) and self.leaving.can_stop:
            self.job_state = replace(self.job_state, why=self.leaving.ending.reason)
            self._ask(PREEMPTION, view.now)
            return False
        return self._let_leave(view)

    def _let_leave_unless_preempted(self, view: View) -> bool:
        return not self.job_state.asks(PREEMPTION) and self._let_leave(view)

    def _call_roll(self, view: View) -> None:
        self._call_roll_for(min(view.failed, key=lambda one: one.modified).record.failures, view.now)

    def _call_roll_for(self, failures: tuple[FailedWorker, ...], now: float) -> None:
        self.job_state = replace(self.job_state, failures=failures)
        self._ask(ROLL_CALL, now)

    def _replace_lost(self, view: View) -> None:
        self._after_loss(view.lost, view.now)

    def _succeed(self, _view: View) -> None:
        self._end(JobEnding(SUCCEEDED))

    def _ask_for_stacks(self, view: View) -> None:
        self._ask(STACKS, view.now)

    def _restart_round(self, view: View) -> None:
        why = "joined" if self.terms.elastic else "joined to replace a lost node"
        newcomers = self.spares.find_newcomers(self.job_state, view.present)
        self._next_round(f"{hosts_in_words(newcomers)} {why}", view.now)
        self.gathering.expect_more()

    def _evict_straggler(self, view: View) -> None:
        self.job_state, why = self.spares.evict(self.job_state)
        self._next_round(why, view.now)

    def _restart_as_requested(self, view: View) -> None:
        self._next_round(RESTART_REQUESTED, view.now)

    def _note_slow_ranks(self, view: View) -> None:
        steps = [(one.record.host, one.record.steps) for one in view.of_round]
        slow = self.slow_ranks.update(self.job_state.round, self.job_state.slow, steps, view.now)
        if slow != self.job_state.slow:
            self.job_state = replace(self.job_state, slow=slow)
        self._wake_at(self.slow_ranks.deadline)

    def _note_unreached(self, view: View) -> None:
        self._note_problems(with_unreached(self.job_state.problems, [one.record for one in view.of_round]))

    def _note_problems(self, problems: tuple[str, ...]) -> bool:
        """Returns whether they end the job."""
        if problems and self.terms.strict:
            self._end(JobEnding(FAILED_JOB, USAGE, 0, f"{'; '.join(problems)} (--strict)"))
        elif problems != self.job_state.problems:
            self.job_state = replace(self.job_state, problems=problems)
        return self.job_state.phase == ENDED

    def _serve_requests(self, view: View) -> None:
        """Ask what users have requested, one question at a time, while the round runs."""
        if self.job_state.question:
            self._take_answers(view)
        wanted = find_requested(self.job_state, [one.record.requests for one in view.of_round])
        if wanted and not self.job_state.question:
            self._ask(wanted, view.now)
            self._take_answers(view)

    def _take_answers(self, view: View) -> None:
        question = self.job_state.question
        assert question is not None
        answers = {**self.earlier_answers, **answers_to(question, view)}
        self.heard_at = {**dict.fromkeys(answers, view.now), **self.heard_at}
        survey = take_survey(self, question, answers, view)
        outcome = QUESTIONS[question.kind].decide(survey)
        OUTCOMES[type(outcome)](self, outcome, view)

    def _gather(self, view: View) -> None:
        present = [one for one in view.present if one.node not in self.gone]
        job, gathering = self.job_state, self.gathering
        chosen = choose_nodes(present, job, self.terms)
        if gathering.may_start(chosen, job.seats, job.round, view.now) and view.trusting:
            offsets = self.admission.clock_offsets(present, self.epoch) if self.epoch is not None else {}
            if self._note_problems(find_problems([one.record for one in present], offsets)):
                return
            seats = seat(chosen, job.seats, by_address=self.terms.by_address)
            begun = self.job_state.begin(seats, self.terms.run_name, view.now - self.round_began)
            self.job_state = replace(begun, snapshots=agree_on_snapshots(chosen, seats))
            self.round_began = view.now
        elif view.now >= gathering.gives_up_at:
            words = joined_in_words(chosen, self.terms)
            self._end(JobEnding(INCOMPLETE, TRY_AGAIN, 0, f"nodes did not join in time: {words}"))
        else:
            status = gathering.message(chosen, job.round, view.now)
            self.job_state = replace(job, join_status=status or job.join_status)
            self._wake_at(gathering.deadline)

    def _nothing(self, _view: View) -> None:
        pass

    # Outcomes of surveys.

    def _wait(self, outcome: outcomes.Wait, view: View) -> None:
        self._wake_at(outcome.until if outcome.until is None or outcome.until > view.now else None)

    def _ask_follow_up(self, outcome: outcomes.AskAgain, view: View) -> None:
        question = self.job_state.question
        assert question is not None
        asked_at, answers = self.asked_at, answers_to(question, view)
        self._ask(question.kind, view.now, outcome.argument)
        self.asked_at, self.earlier_answers = asked_at, answers
        self._take_answers(view)

    def _resume(self, _outcome: outcomes.Resume, _view: View) -> None:
        self.job_state = replace(self.job_state, phase=RUNNING, question=None)

    def _call_roll_after(self, outcome: outcomes.CallRoll, view: View) -> None:
        self._call_roll_for(outcome.failures, view.now)
        self._take_answers(view)

    def _after_nodes_lost(self, outcome: outcomes.NodesLost, view: View) -> None:
        self._after_loss([row for row in view.lost if row.node in outcome.nodes], view.now)

    def _drop_failed_node(self, outcome: outcomes.NodeLeaves, view: View) -> None:
        self.gone.add(outcome.node)
        self._next_round(outcome.reason, view.now)

    def _restart(self, outcome: outcomes.Restart, view: View) -> None:
        culprit = outcome.culprit._replace(said=tuple(exception_message(outcome.culprit)))
        self._next_round("", view.now, delay=outcome.delay, culprit=culprit)
        self.job_state = replace(self.job_state, past=outcome.history)

    def _end_as_decided(self, outcome: outcomes.EndJob, view: View) -> None:
        if not self.job_state.asks(PREEMPTION) or self._ends_with_leaving(view):
            self._end(self.leaving.with_cause(outcome.ending))
        else:
            self._let_leave(view)

    def _publish(self, outcome: outcomes.Publish, _view: View) -> None:
        question = self.job_state.question
        assert question is not None
        results = {**self.job_state.results, question.kind: Result(question.id, outcome.lines)}
        self.job_state = replace(self.job_state, phase=RUNNING, question=None, results=results)

    # Changes of the job state.

    def _ask(self, kind: str, now: float, argument: str = "") -> None:
        number = self.job_state.asked + 1
        phase = DECIDING if QUESTIONS[kind].urgent else RUNNING
        self.job_state = replace(self.job_state, phase=phase, asked=number, question=Question(number, kind, argument))
        self.asked_at, self.heard_at, self.earlier_answers, self.asked_here = now, {}, {}, True

    def _after_loss(self, lost: list[Seat], now: float) -> None:
        ending = ending_after_loss(lost, self.job_state.seats, self.terms)
        if ending.code:
            self._end(ending)
        else:
            self._next_round(ending.reason, now, lost=tuple(row.host for row in lost))

    def _next_round(
        self,
        why: str,
        now: float,
        *,
        delay: float = 0.0,
        culprit: FailedWorker | None = None,
        lost: tuple[str, ...] = (),
    ) -> None:
        """`culprit`: a counted restart follows its failure."""
        self.gathering.begin(now, delay)
        self.done.clear()
        self.failed_since = None
        why = self.spares.with_successors(why, self.present, self.job_state, self.gone)
        restarts = with_restart(self.job_state, now + (self.epoch or 0.0), why, culprit, lost)
        left = tuple(sorted(self.gone & self.here))
        job = next_round(self.job_state, why, culprit, restarts, left=left, delay=delay)
        self.job_state = replace(job, reports=self._reporter())

    def _end(self, ending: JobEnding) -> None:
        name, reports = self.job_state.run_name or self.terms.run_name, self._reporter()
        job = replace(self.job_state, phase=ENDED, ending=ending, run_name=name, reports=reports)
        self.job_state = replace(job, join_status="", question=None)

    def _reporter(self) -> str:
        """The node with the lowest number that is still there."""
        return next((row.node for row in self.job_state.seats if row.node in self.here - self.gone), self.own)

    def _wake_at(self, at: float | None) -> None:
        self.deadline = min((time for time in (at, self.deadline) if time is not None), default=None)


C, nothing = Coordinator, Coordinator._nothing
always: Callable[[Coordinator, View], bool] = lambda _coordinator, _view: True  # noqa: E731
# Findings in the order in which they are checked, and the reaction in each phase. If a function changes the phase,
# later findings are checked in the new phase.
_ROWS: dict[str, tuple[Callable[[Coordinator, View], bool | None], ...]] = {
    # finding: check; gathering, running, deciding, ended
    "a record of a later round": (C._sees_later_round, C._catch_up, C._catch_up, C._catch_up, nothing),
    "a node that was asked to leave": (
        *(C._sees_leaving_node, C._let_leave, C._let_leave_or_preempt, C._let_leave_unless_preempted, nothing),
    ),
    "step times of ranks": (always, nothing, C._note_slow_ranks, nothing, nothing),
    "a node that cannot reach another": (C._sees_unreached, nothing, C._note_unreached, nothing, nothing),
    "a failed node": (C._sees_failure, nothing, C._call_roll, nothing, nothing),
    "a lost node": (lambda _, view: bool(view.lost), nothing, C._replace_lost, nothing, nothing),
    "all nodes are done or only serve": (C._sees_all_done, nothing, C._succeed, nothing, nothing),
    "all nodes with work make no progress": (C._sees_all_idle, nothing, C._ask_for_stacks, nothing, nothing),
    "a request to restart": (C._sees_restart_request, nothing, C._restart_as_requested, nothing, nothing),
    "a node without a seat": (C._sees_newcomer, nothing, C._restart_round, nothing, nothing),
    "a straggler that a spare can replace": (C._sees_straggler, nothing, C._evict_straggler, nothing, nothing),
    "requests of users": (always, nothing, C._serve_requests, nothing, nothing),
    "answers to a question": (always, nothing, nothing, C._take_answers, nothing),
    "nodes that gather": (always, C._gather, nothing, nothing, nothing),
}
FINDINGS = {finding: row[0] for finding, row in _ROWS.items()}
TABLE = {(phase, finding): cell for finding, row in _ROWS.items() for phase, cell in zip(PHASES, row[1:], strict=True)}
OUTCOMES: dict[type[outcomes.Outcome], Callable[[Coordinator, Any, View], None]] = {
    outcomes.Wait: C._wait,
    outcomes.AskAgain: C._ask_follow_up,
    outcomes.Resume: C._resume,
    outcomes.CallRoll: C._call_roll_after,
    outcomes.NodesLost: C._after_nodes_lost,
    outcomes.NodeLeaves: C._drop_failed_node,
    outcomes.Restart: C._restart,
    outcomes.EndJob: C._end_as_decided,
    outcomes.Publish: C._publish,
}
