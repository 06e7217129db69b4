"""What a user may ask of a running job, whether it runs on one machine or on several."""

from __future__ import annotations

from abc import ABC, abstractmethod

from flota.job.nodes import WHOLE_JOB
from flota.supervise.grace_period import SIGTERM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.job.overview import JobOverview
    from flota.job.survey_outcomes import Result
    from flota.run.node_watch import NodeWatch


class CannotDo(Exception):
    """What is asked for is not possible in this job, or not now."""


class JobRequests(ABC):
    """Requests that act return what happens, in words, or raise CannotDo.

    `token`: with it, the other nodes can be asked. `authority`: the CA certificate with which they are verified.
    """

    def __init__(self, node: NodeWatch, token: str = "", authority: str = "") -> None:
        self._watch = node
        self.token = token
        self.authority = authority

    @abstractmethod
    def overview(self) -> JobOverview: ...

    def stop(self) -> str:
        self._watch.begin_stop("flota stop", SIGTERM, WHOLE_JOB)
        return "stopping the job"

    @abstractmethod
    def restart(self) -> str: ...

    @abstractmethod
    def leave(self) -> str:
        """Let this node leave the job, which goes on."""

    @abstractmethod
    def ask(self, kind: str) -> int | None:
        """Ask all nodes. The result will have an id above the returned one; None: they cannot be asked."""

    @abstractmethod
    def result_of(self, kind: str) -> Result | None: ...
