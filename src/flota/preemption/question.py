"""The preemption question: which step has each node reached, and at which step do all workers stop? Pure."""

from __future__ import annotations

from flota.errors import TRY_AGAIN
from flota.job.report import STOPPED, JobEnding
from flota.job.survey_outcomes import AskAgain, EndJob, Outcome, Question, Wait
from flota.preemption.stop_step import MAX_PACE, NO_WORKERS, NOW, StopAnswer, agreed_step
from flota.supervise.events import StopRequested
from flota.supervise.grace_period import SIGTERM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode
    from flota.cluster.survey import Survey

KIND = "preemption"  # without an argument: which step has been reached? With one: stop at this step
ANSWER_TIME = 2.0  # seconds in which every node must report its progress
LEAD_TIME = 1.0  # seconds until all nodes have asked their workers
GRACEFULLY, OTHERWISE = "gracefully", "otherwise"


def is_sound(answer: StopAnswer) -> bool:
    fits = NO_WORKERS <= answer.step < 1 << 62 and 0 <= answer.pace <= MAX_PACE
    return fits and answer.stopped in ("", GRACEFULLY, OTHERWISE)


def decide(survey: Survey) -> Outcome:
    """The job ends with exit code 75 if all workers have saved and exited on their own, otherwise with 143."""
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


def answer(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001  a row's signature
    """Answer first with the progress of this node's workers, then with how they have stopped."""
    if not question.argument:
        node.reply(question, node.progress())
    elif workers_gone:
        node.reply(question, StopAnswer(stopped=GRACEFULLY if node.stopped_gracefully else OTHERWISE))
    elif node.supervisor.only_serves:
        node.reply(question, StopAnswer(stopped=GRACEFULLY))  # workers that serve keep running until the job has ended
    else:
        step = question.argument
        node.agreed_step = int(step) if step.isdecimal() and len(step) < 19 else NOW
        node.step(StopRequested(SIGTERM, gracefully=True))
