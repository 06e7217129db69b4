"""Preemption of a job of several nodes: how far are all workers, and at which step do they all stop?

Nodes act through their own methods only. Pure.
"""

from __future__ import annotations

from flota.errors import TRY_AGAIN
from flota.job.report import STOPPED, JobEnding
from flota.job.survey_outcomes import AskAgain, EndJob, Outcome, Question, Wait
from flota.preemption.stop_step import FASTEST, NO_OPINION, NOW, StopAnswer, agreed_step
from flota.supervise.events import StopRequested
from flota.supervise.grace_period import SIGTERM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode
    from flota.cluster.survey import Survey

KIND = "preemption"  # without an argument: how far are they? With one: stop at this step
ANSWER_TIME = 2.0  # seconds in which every node must say how far its workers are
LEAD_TIME = 1.0  # seconds until the workers of all nodes have been asked
GRACEFULLY, OTHERWISE = "gracefully", "otherwise"


def is_sound(answer: StopAnswer) -> bool:
    fits = NO_OPINION <= answer.step < 1 << 62 and 0 <= answer.pace <= FASTEST
    return fits and answer.stopped in ("", GRACEFULLY, OTHERWISE)


def decide(survey: Survey) -> Outcome:
    """The job ends with 75 if all workers have saved and stopped, and with 143 in any other case."""
    stopped = JobEnding(STOPPED, 128 + SIGTERM, SIGTERM, survey.job.why)
    if survey.question.argument:
        ends = {node: answer.stopped for node, answer in survey.answers.items() if answer.stopped}
        if not all(node in ends or node in survey.lost or node in survey.done for node in survey.nodes):
            return Wait()
        gracefully = not survey.lost and OTHERWISE not in ends.values()
        return EndJob(stopped._replace(code=TRY_AGAIN) if gracefully else stopped)
    asked = [node for node in survey.nodes if node not in survey.done]
    answers: list[StopAnswer] = [survey.answers[node] for node in asked if node in survey.answers]
    late = survey.asked_at + ANSWER_TIME
    if survey.lost or survey.now >= late or not all(answer.can_stop for answer in answers):
        return EndJob(stopped)
    if len(answers) < len(asked):
        return Wait(late)
    pace = max((answer.pace for answer in answers), default=0.0)
    return AskAgain(str(agreed_step([answer.step for answer in answers], pace, LEAD_TIME)))


def answer(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001  a row's
    """First how far this node's workers are, then how they have stopped."""
    if not question.argument:
        node.reply(question, node.progress())
    elif workers_gone:
        node.reply(question, StopAnswer(stopped=GRACEFULLY if node.stopped_gracefully else OTHERWISE))
    elif node.supervisor.only_serves:
        node.reply(question, StopAnswer(stopped=GRACEFULLY))  # workers that serve go on until the job has ended
    else:
        step = question.argument
        node.agreed_step = int(step) if step.isdecimal() and len(step) < 19 else NOW
        node.step(StopRequested(SIGTERM, gracefully=True))
