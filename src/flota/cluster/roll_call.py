"""After a failure: who has answered the roll call, how wrong whose clock is, who is to blame, and what follows.
Pure.
"""

from __future__ import annotations

from flota.cluster.job_state import JobState
from flota.cluster.node_record import DEAD, DONE, FAILED, HERE, Present
from flota.failures.blame import in_order_of_blame
from flota.job.causes import is_hang
from flota.job.report import FAILED as JOB_FAILED
from flota.job.report import FailedWorker, JobEnding, exit_code_of_all
from flota.job.spec import RestartPolicy
from flota.supervise.restart_policy import Decision, decide
from flota.supervise.supervisor import A_MOMENT
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

SETTLE = 1.0  # seconds in which nodes may add to a report what is of interest, but changes nothing
DOUBT = 5.0  # the same while all who are known to have failed have only suffered
TOLD_IN_FULL = 32  # failures: a job_state goes to everybody


class Doubt:
    """Of one round: while none but victims have failed, the one who died may be about to be seen, and a roll call would
    stop it."""

    def __init__(self) -> None:
        self._since: float | None = None

    def lasts_until(self, failed: list[Present], now: float) -> float | None:
        """None when there is nothing to wait for."""
        if failed and self._since is None:
            self._since = now
        victims = all(fault.suffered for one in failed for fault in one.record.failures)
        until = self._since + A_MOMENT if self._since is not None and victims else now
        return until if until > now else None

    def is_over(self, failed: list[Present], now: float) -> bool:
        return self.lasts_until(failed, now) is None


class Finding(NamedTuple):
    """`host`: where the culprit ran; empty if its node is gone. `ending`: of the job, unless there is a restart."""

    node: str
    host: str
    culprit: FailedWorker
    decision: Decision
    leaves: bool  # the culprit's node does, and the others go on
    ending: JobEnding


class RollCall:
    """Of one roll call, which began at `called_at`. `epoch` makes a time of day of the coordinator's own time; None
    where
    another coordinator has called."""

    def __init__(self, called_at: float, epoch: float | None) -> None:
        self.called_at = called_at
        self.answered: set[str] = set()
        self._epoch = epoch
        self._clocks: dict[str, tuple[float, float]] = {}  # what a node's showed, and when that was heard here
        self._complete_at: float | None = None

    def hear(self, of_round: list[Present], now: float) -> None:
        for one in of_round:
            if one.record.state in (HERE, FAILED, DONE, DEAD):
                self.answered.add(one.node)
            if one.record.clock and self._epoch is not None:
                self._clocks.setdefault(one.node, (one.record.clock, now + self._epoch))

    def ahead(self, node: str) -> float:
        """By how many seconds a node's clock is ahead of ours.

        It showed what the node said at some time between the call and the answer. Clocks that may agree are taken to
        agree: whoever keeps clocks right does it better than we could. Otherwise an answer has taken as long as the
        quickest one; if it came late, the node was late to hear the call.
        """
        if node not in self._clocks or self._epoch is None:
            return 0.0
        clock, heard = self._clocks[node]
        called = self.called_at + self._epoch
        if called <= clock <= heard:
            return 0.0
        quickest = min(heard for _, heard in self._clocks.values()) - called
        return clock - (heard - quickest / 2)

    def blame(self, of_round: list[Present]) -> list[tuple[str, FailedWorker]]:
        """All failures, with the time by the coordinator's clock, each with its node, in order of blame. Of two at the
        same
        time the store has the order."""
        nodes: dict[FailedWorker, str] = {}
        for one in sorted(of_round, key=lambda one: one.said):
            for fault in one.record.failures:
                nodes[fault._replace(at=fault.at - self.ahead(one.node))] = one.node
        return [(nodes[fault], fault) for fault in in_order_of_blame(list(nodes))]

    def find(self, of_round: list[Present], job_state: JobState, policy: RestartPolicy) -> Finding:
        """The failures that the roll was called for are all there is, where their node is gone. A hang comes before
        all that fail because of it."""
        hung = [(_where(one, of_round), self._dated(one)) for one in job_state.failures if is_hang(one.code, one.cause)]
        blamed = hung + self.blame(of_round) or [("", fault) for fault in job_state.failures]
        node, culprit = blamed[0]
        host = next((one.record for one in of_round if one.node == node), None)
        reached = max((culprit.step, *(one.record.reached for one in of_round)))
        decision = decide(culprit._replace(step=reached), job_state.past, job_state.attempt, policy)
        failures = [fault for _, fault in blamed]
        code = exit_code_of_all((fault.code, fault.told) for fault in failures)
        ending = JobEnding(JOB_FAILED, code, 0, decision.why, told_to_all(failures), ended_well(of_round, failures))
        leaves = policy.enabled and policy.elastic_level == 0 and not culprit.final and host and not host.serves
        return Finding(node, host.host if host else "", culprit, decision, bool(leaves), ending)

    def _dated(self, hung: FailedWorker) -> FailedWorker:
        """No node has seen it: it is as old as the call."""
        return hung._replace(at=self.called_at + self._epoch) if self._epoch is not None else hung

    def wait_until(self, of_round: list[Present], now: float, culprit: FailedWorker, *, restarts: bool) -> float:
        """When to decide; restarts are not kept waiting when it is clear who is to blame."""
        if self._complete_at is None:
            self._complete_at = now
        failed = [one for one in of_round if any(_is_failure(fault) for fault in one.record.failures)]
        is_ordered = self._epoch is None or len(failed) < 2 or all(one.node in self._clocks for one in failed)
        is_clear = is_hang(culprit.code, culprit.cause) or any(
            _is_failure(fault) and not fault.suffered for one in failed for fault in one.record.failures
        )
        waits = any(one.node in self.answered and not one.record.swept and one.record.state != DEAD for one in of_round)
        if is_ordered and (not waits or (restarts and is_clear)):
            return now
        return self._complete_at + (SETTLE if is_clear else DOUBT)


def _where(hung: FailedWorker, of_round: list[Present]) -> str:
    """The node of a rank that makes the others wait; empty: of nobody in particular."""
    who = hung.role, hung.rank
    return next((one.node for one in of_round if who in {(post.role, post.rank) for post in one.record.positions}), "")


def _is_failure(fault: FailedWorker) -> bool:
    return fault.code != 0 and not fault.told


def told_to_all(failures: list[FailedWorker]) -> tuple[FailedWorker, ...]:
    """The first in full; of the others who they are, and how they ended."""
    rest = (fault._replace(said=(), log="", evidence="", hint="") for fault in failures[TOLD_IN_FULL:])
    return (*failures[:TOLD_IN_FULL], *rest)


def ended_well(of_round: list[Present], blamed: Collection[FailedWorker]) -> tuple[tuple[str, int], ...]:
    """The workers that had done their work, by role and rank."""
    guilty = {(fault.role, fault.rank) for fault in blamed}
    return tuple(worker for one in of_round for worker in one.record.ended if worker not in guilty)
