"""A node's answers to a roll call: its clock at once, and when its workers are gone, all that it knows of them."""

from __future__ import annotations

from flota.failures.roll_call import Testimony, sendable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode
    from flota.job.survey import Question


def answer_roll_call(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001  a row's signature
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
