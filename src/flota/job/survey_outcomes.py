"""Questions to all nodes of a running job, and the outcomes that their answers can have.

A feature that needs all nodes defines a kind of question, a type for the answers, and a function that decides the
outcome of a survey; cluster/questions.py has a row for each feature. Pure.
"""

from __future__ import annotations

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.job.report import FailedWorker, JobEnding
    from flota.supervise.restart_policy import History


class Question(NamedTuple):
    """A question to all nodes. `id` grows with each question; the meaning of `argument` depends on the kind."""

    id: int
    kind: str
    argument: str = ""


class Result(NamedTuple):
    """The result of a question that a user asked, as text."""

    id: int
    lines: tuple[str, ...]


# The outcomes.


class Wait(NamedTuple):
    """Wait for more answers; at `until`, decide without them."""

    until: float | None = None


class AskAgain(NamedTuple):
    """Ask the same kind of question with another argument."""

    argument: str


class Resume(NamedTuple):
    """Continue the round: there was no reason to ask."""


class CallRoll(NamedTuple):
    """These ranks have failed: ask all nodes what they know about it."""

    failures: tuple[FailedWorker, ...]


class NodesLost(NamedTuple):
    """The loss of these nodes explains everything."""

    nodes: tuple[str, ...]


class NodeLeaves(NamedTuple):
    """This node leaves with its failure, and the others start the next round."""

    node: str
    reason: str


class Restart(NamedTuple):
    """Restart all workers after `delay` seconds. This counts as a restart."""

    culprit: FailedWorker
    history: History
    delay: float


class EndJob(NamedTuple):
    ending: JobEnding


class Publish(NamedTuple):
    """Continue the round, and publish the result for the user who asked."""

    lines: tuple[str, ...]


Outcome = Wait | AskAgain | Resume | CallRoll | NodesLost | NodeLeaves | Restart | EndJob | Publish
