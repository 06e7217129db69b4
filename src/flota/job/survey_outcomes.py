"""What all nodes of a running job can be asked, as values: a question, an answer, and what can follow from all answers.

A feature that needs all nodes has a question of its own kind, a type for the bodies of its answers, and a function from
a survey to an outcome; cluster/questions.py has a row for each. Pure.
"""

from __future__ import annotations

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.job.report import FailedWorker, JobEnding
    from flota.supervise.restart_policy import History


class Question(NamedTuple):
    """`id` grows with each question of the job. `argument`: what the kind makes of it."""

    id: int
    kind: str
    argument: str = ""


class Result(NamedTuple):
    """What a question has shown that a user asked, for people."""

    id: int
    lines: tuple[str, ...]


# What can follow from the answers that are there.


class Wait(NamedTuple):
    """For more of them; `until`: when to decide all the same."""

    until: float | None = None


class AskAgain(NamedTuple):
    """The same kind of question, with another argument."""

    argument: str


class Resume(NamedTuple):
    """There was no reason to ask: the round goes on."""


class CallRoll(NamedTuple):
    """These ranks have failed: find out what all nodes know."""

    failures: tuple[FailedWorker, ...]


class NodesLost(NamedTuple):
    """Their loss explains it all."""

    nodes: tuple[str, ...]


class NodeLeaves(NamedTuple):
    """This node goes with its failure, and the others start the next round."""

    node: str
    reason: str


class Restart(NamedTuple):
    """All start again, after so many seconds, and it counts."""

    culprit: FailedWorker
    history: History
    delay: float


class EndJob(NamedTuple):
    ending: JobEnding


class Publish(NamedTuple):
    """The round goes on, and those who asked can read this."""

    lines: tuple[str, ...]


Outcome = Wait | AskAgain | Resume | CallRoll | NodesLost | NodeLeaves | Restart | EndJob | Publish
