"""The roll call after a failure: asks all nodes for their failures and clocks, finds the first failure, decides what
follows.

A worker that fails because a node died may report that before the store notices the dead node. So all nodes must
answer; if one never does, its loss came first. Pure, except that `answer` acts through the node.
"""

from __future__ import annotations

from flota.failures.blame import in_order_of_blame
from flota.job import causes
from flota.job.causes import is_hang
from flota.job.printable import are_printable, printable
from flota.job.report import FAILED, NO_STEP, FailedWorker, JobEnding, exit_code_of_all
from flota.job.roles import label
from flota.job.survey_outcomes import EndJob, NodeLeaves, NodesLost, Outcome, Question, Restart, Resume, Wait
from flota.supervise.restart_policy import decide as decide_restart
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from flota.cluster.multi_node import MultiNode
    from flota.cluster.survey import Survey

KIND = "roll call"
SETTLE = 1.0  # seconds in which nodes may add details that do not change the decision
DOUBT = 5.0  # the same while all known failures are secondary
IN_FULL = 32  # failures that the job's ending, which goes to every node, contains in full
LONGEST_LINE = 400
TEXTS = ("role", "node", "ending", "log", "exception", "evidence", "hint")  # of a failure
ANSWERED_BY_STATE = (
    "failed",
    "done",
    "dead",
)  # states of a record that prove its node was alive


class RollCallAnswer(NamedTuple):
    """A node's answer. Its clock and the highest step of its workers (`reached`) are sent at once, the rest when its
    workers have exited (`swept`). `ended`: workers that finished successfully, by role and rank.
    """

    clock: float
    reached: int = NO_STEP
    failures: tuple[FailedWorker, ...] = ()
    ended: tuple[tuple[str, int], ...] = ()
    swept: bool = False


def sendable(failed: FailedWorker) -> FailedWorker:
    texts: dict[str, Any] = {field: printable(getattr(failed, field)) for field in TEXTS}
    return failed._replace(**texts, said=tuple(printable(line, LONGEST_LINE) for line in failed.said))


def is_sound_failure(failed: FailedWorker) -> bool:
    """Whether a failure from another node is valid. Only the coordinator reports hangs."""
    known = failed.cause in causes.ALL and not is_hang(failed.code, failed.cause)
    return known and are_printable([*(getattr(failed, field) for field in TEXTS), *failed.said])


def is_sound(reply: RollCallAnswer) -> bool:
    return all(map(is_sound_failure, reply.failures)) and are_printable(role for role, _ in reply.ended)


def answer(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001  a row's signature
    """The clock is read once, for the first answer, because the coordinator compares it with that answer's arrival."""
    if node.roll_call.id != question.id:
        node.roll_call = question
        node.roll_call_answer = RollCallAnswer(node.time_of_day(), node.evidence.reached())
    if workers_gone:
        node.roll_call_answer = _complete(node, node.roll_call_answer)
    node.reply(question, node.roll_call_answer)


def _complete(node: MultiNode, reply: RollCallAnswer) -> RollCallAnswer:
    """Add this node's failures. If all known failures of the job are secondary, add its suspects instead."""
    evidence, job = node.evidence, node.follower.job_state
    started = evidence.last
    if started is None or job is None or started.roster.round != job.round:
        return reply._replace(swept=True)
    found = evidence.found if node.failure_reported else ()
    if not node.failure_reported and all(failed.is_secondary for failed in job.failures):
        found = tuple(evidence.suspects())
    return reply._replace(failures=tuple(map(sendable, found)), ended=evidence.succeeded(), swept=True)


def decide(survey: Survey) -> Outcome:
    states = {node: one.record.state for node, one in survey.present.items()}
    answered = set(survey.heard_at) | {node for node, state in states.items() if state in ANSWERED_BY_STATE}
    silent = set(survey.nodes) - answered - set(survey.done)
    lost = tuple(node for node in survey.lost if node in silent)
    give_up = survey.asked_at + survey.late_after
    if lost:
        return NodesLost(lost)
    if silent and survey.now < give_up:
        return Wait(give_up)
    return _after_failure(survey, answered)


def _after_failure(survey: Survey, answered: set[str]) -> Outcome:
    """Decide whether the job restarts or ends. A hang comes before the failures that it causes. If no present node has
    a failure, use those that started the roll call: their node is gone."""
    job, policy = survey.job, survey.terms.policy
    # No node knows when a hang began: use the time of the roll call.
    called_at = survey.asked_at + (survey.epoch or 0.0)
    hangs = (one for one in job.failures if is_hang(one.code, one.cause))
    hung = [(_node_of(one, survey), one._replace(at=called_at)) for one in hangs]
    blamed = hung + in_order(survey) or [("", failed) for failed in job.failures]
    if not blamed:
        return Resume()  # no failure after all
    node, culprit = blamed[0]
    reached = max((culprit.step, *(one.reached for one in survey.answers.values())))
    decision = decide_restart(culprit._replace(step=reached), job.past, job.attempt, policy)
    record = survey.present[node].record if node in survey.present else None
    leaves = policy.enabled and policy.elastic_level == 0 and not culprit.final and record and not record.serves
    wait = _wait_until(survey, answered, culprit, restarts=bool(leaves) or decision.restarts)
    if survey.now < wait:
        return Wait(wait)
    if leaves and record:
        what = "hung" if is_hang(culprit.code, culprit.cause) else "failed"
        return NodeLeaves(node, f"{record.host} left after {label(culprit.role, culprit.rank)} {what}")
    if decision.restarts:
        return Restart(culprit, decision.history, decision.delay)
    failures = [failed for _, failed in blamed]
    ended = finished(survey, failures)
    return EndJob(JobEnding(FAILED, exit_code_of_all(failures), 0, decision.why, in_full(failures), ended))


def failures_of(node: str, survey: Survey) -> tuple[FailedWorker, ...]:
    """The failures in a node's answer, sent after its workers exited, or else those in its record."""
    reply = survey.answers.get(node)
    return (reply.failures if reply else ()) or survey.present[node].record.failures


def in_order(survey: Survey) -> list[tuple[str, FailedWorker]]:
    """All failures with their nodes in order of blame, with times by the coordinator's clock. The store's order breaks
    ties."""
    nodes: dict[FailedWorker, str] = {}
    for node in sorted(survey.present, key=lambda node: survey.present[node].modified):
        for failed in failures_of(node, survey):
            nodes[failed._replace(at=failed.at - clock_offset(node, survey))] = node
    return [(nodes[failed], failed) for failed in in_order_of_blame(list(nodes))]


def clock_offset(node: str, survey: Survey) -> float:
    """How many seconds a node's clock is ahead of the coordinator's.

    The node read its clock at some time between the call and its answer. If that is consistent with equal clocks, they
    are taken as equal: NTP is more precise than this estimate. Otherwise the answer is assumed to have taken as long as
    the fastest one.
    """
    if node not in survey.answers or survey.epoch is None:
        return 0.0
    clock, heard = survey.answers[node].clock, survey.heard_at[node] + survey.epoch
    called = survey.asked_at + survey.epoch
    if called <= clock <= heard:
        return 0.0
    quickest = min(survey.heard_at[other] for other in survey.answers) - survey.asked_at
    return float(clock - (heard - quickest / 2))


def _node_of(hung: FailedWorker, survey: Survey) -> str:
    """The node of a hung rank, also if its host has several nodes. Empty if no single rank hung."""
    on_host = [seat.node for seat in survey.job.seats if seat.host == hung.node] if hung.rank >= 0 else []
    if len(on_host) < 2:
        return "".join(on_host)
    roles = survey.terms.roles or (hung.role,)
    owners = [
        seat.node
        for number, role in enumerate(roles)
        if role == hung.role
        for seat in survey.job.seats
        for _ in range(seat.workers_of(number))
    ]
    return owners[hung.rank] if hung.rank < len(owners) else on_host[0]


def _wait_until(survey: Survey, answered: set[str], culprit: FailedWorker, *, restarts: bool) -> float:
    """When to decide. A restart does not wait for details if the first failure is clear."""
    failed = [node for node in survey.present if any(_is_failure(one) for one in failures_of(node, survey))]
    is_ordered = survey.epoch is None or len(failed) < 2 or all(node in survey.answers for node in failed)
    is_clear = is_hang(culprit.code, culprit.cause) or any(
        _is_failure(one) and not one.is_secondary for node in failed for one in failures_of(node, survey)
    )
    open_ = [node for node, one in survey.present.items() if node in answered and one.record.state != "dead"]
    waits = any(node not in survey.answers or not survey.answers[node].swept for node in open_)
    if is_ordered and (not waits or (restarts and is_clear)):
        return survey.now
    complete_at = max((survey.asked_at, *survey.heard_at.values()))
    return complete_at + (SETTLE if is_clear else DOUBT)


def _is_failure(failed: FailedWorker) -> bool:
    return failed.code != 0 and not failed.asked_to_stop


def in_full(failures: list[FailedWorker]) -> tuple[FailedWorker, ...]:
    """The first failures in full, the others without output, log and hint."""
    rest = (failed._replace(said=(), log="", evidence="", hint="") for failed in failures[IN_FULL:])
    return (*failures[:IN_FULL], *rest)


def finished(survey: Survey, blamed: list[FailedWorker]) -> tuple[tuple[str, int], ...]:
    """The workers that finished successfully, by role and rank."""
    failed_workers = {(failed.role, failed.rank) for failed in blamed}
    ended = (worker for reply in survey.answers.values() for worker in reply.ended)
    return tuple(worker for worker in ended if worker not in failed_workers)
