"""After a failure: which nodes have answered the roll call, how wrong their clocks are, which failure came first, and
what follows.

A worker that fails because a node is dead may say so before the store knows of the dead node. So all nodes are asked to
answer, and if one never does, its loss came first. The answer acts through the node alone. Pure.
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
SETTLE = 1.0  # seconds in which nodes may add to a report what is of interest, but changes nothing
DOUBT = 5.0  # the same while all known failures are secondary
IN_FULL = 32  # failures: the job's ending goes to every node
LONGEST_LINE = 400
TEXTS = ("role", "node", "ending", "log", "exception", "evidence", "hint")  # of a failure
ANSWERED_BY_STATE = ("failed", "done", "dead")  # of a record: its node was alive, or its shepherd is


class Testimony(NamedTuple):
    """What a node knows: at once its clock, and the furthest step that its workers have reported; the rest when its
    workers are gone (`swept`). `ended`: workers that had finished, by role and rank.
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
    """That the job hangs is the coordinator's to say."""
    known = failed.cause in causes.ALL and not is_hang(failed.code, failed.cause)
    return known and are_printable([*(getattr(failed, field) for field in TEXTS), *failed.said])


def is_sound(testimony: Testimony) -> bool:
    return all(map(is_sound_failure, testimony.failures)) and are_printable(role for role, _ in testimony.ended)


def answer(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001  a row's signature
    """The clock is compared with the moment of the first answer, and stays as it was then."""
    if node.roll_call.id != question.id:
        node.roll_call = question
        node.testimony = Testimony(node.time_of_day(), node.evidence.reached())
    if workers_gone:
        node.testimony = _complete(node, node.testimony)
    node.reply(question, node.testimony)


def _complete(node: MultiNode, testimony: Testimony) -> Testimony:
    """Where all failures known anywhere are secondary, one of ours may be to blame without having been the first to
    end."""
    evidence, job = node.evidence, node.follower.job_state
    started = evidence.last
    if started is None or job is None or started.roster.round != job.round:
        return testimony._replace(swept=True)
    found = evidence.found if node.failure_reported else ()
    if not node.failure_reported and all(failed.is_secondary for failed in job.failures):
        found = tuple(evidence.suspects())
    return testimony._replace(failures=tuple(map(sendable, found)), ended=evidence.succeeded(), swept=True)


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
    """The failures that the roll was called for are all there is, where their node is gone. A hang comes before all
    that fails because of it."""
    job, policy = survey.job, survey.terms.policy
    # No node has seen a hang: it is as old as the call.
    called_at = survey.asked_at + (survey.epoch or 0.0)
    hangs = (one for one in job.failures if is_hang(one.code, one.cause))
    hung = [(_node_of(one, survey), one._replace(at=called_at)) for one in hangs]
    blamed = hung + in_order(survey) or [("", failed) for failed in job.failures]
    if not blamed:
        return Resume()  # a roll call without a reason
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
    """What is known when the workers are gone counts more than what was said at first."""
    testimony = survey.answers.get(node)
    return (testimony.failures if testimony else ()) or survey.present[node].record.failures


def in_order(survey: Survey) -> list[tuple[str, FailedWorker]]:
    """All failures, with the time by the coordinator's clock, each with its node, in order of blame. Of two at the same
    time the store has the order."""
    nodes: dict[FailedWorker, str] = {}
    for node in sorted(survey.present, key=lambda node: survey.present[node].modified):
        for failed in failures_of(node, survey):
            nodes[failed._replace(at=failed.at - clock_offset(node, survey))] = node
    return [(nodes[failed], failed) for failed in in_order_of_blame(list(nodes))]


def clock_offset(node: str, survey: Survey) -> float:
    """By how many seconds a node's clock is ahead of ours.

    It showed what the node said at some time between the call and the answer. Clocks that may agree are taken to
    agree: whatever keeps clocks right does it better than we could. Otherwise an answer has taken as long as the
    quickest one; if it came late, the node was late to hear the call.
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
    """The node of a rank that blocks the others; empty: no rank in particular. Of two nodes on one host, the one that
    has the rank."""
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
    """When to decide; restarts are not kept waiting when it is clear which failure came first."""
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
    """The first ones; of the others which they are, and how they ended."""
    rest = (failed._replace(said=(), log="", evidence="", hint="") for failed in failures[IN_FULL:])
    return (*failures[:IN_FULL], *rest)


def finished(survey: Survey, blamed: list[FailedWorker]) -> tuple[tuple[str, int], ...]:
    """The workers that had done their work, by role and rank."""
    guilty = {(failed.role, failed.rank) for failed in blamed}
    ended = (worker for testimony in survey.answers.values() for worker in testimony.ended)
    return tuple(worker for worker in ended if worker not in guilty)
