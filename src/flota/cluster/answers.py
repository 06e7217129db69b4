"""What follows from the answers to a question of the coordinator's: how far are all workers, or where do they stand?
Pure.
"""

from __future__ import annotations

from flota.cluster import all_idle, preemption
from flota.cluster.job_state import STACKS, YIELD, JobState
from flota.cluster.node_record import Present
from flota.job.report import JobEnding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

ANSWER_TIMES = {YIELD: preemption.ANSWER_TIME, STACKS: all_idle.ANSWER_TIME}


def next_word(
    job_state: JobState, by_node: dict[str, Present], lost: Collection[str], done: Collection[str], *, late: bool
) -> JobState | JobEnding | None:
    """What the coordinator says next; None while it waits. `late`: the time for answers is over."""
    if job_state.phase == STACKS:
        return all_idle.next_word(job_state, by_node, lost, done, late=late)
    return preemption.next_word(job_state, by_node, lost, done, late=late)
