"""A node's answers to a preemption: how far its workers are, then how they have stopped."""

from __future__ import annotations

from flota.preemption.question import GRACEFULLY, OTHERWISE, StopAnswer
from flota.supervise.events import StopRequested
from flota.supervise.supervisor import SIGTERM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode
    from flota.job.survey import Question


def answer_preemption(node: MultiNode, question: Question, workers_gone: bool) -> None:  # noqa: FBT001  a row's
    if not question.argument:
        progress = node.progress()
        node.reply(question, StopAnswer(progress.can_stop, progress.step, progress.pace))
    elif workers_gone:
        node.reply(question, StopAnswer(stopped=GRACEFULLY if node.stopped_gracefully else OTHERWISE))
    elif node.supervisor.only_serves:
        node.reply(question, StopAnswer(stopped=GRACEFULLY))  # who serves goes on serving until the job has ended
    else:
        node.agreed_step = int(question.argument)
        node.step(StopRequested(SIGTERM, gently=True))
