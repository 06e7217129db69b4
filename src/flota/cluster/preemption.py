"""When the whole job is asked to stop, and all workers can end by themselves: one step for all of them. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from flota.cluster.job_state import JobState
from flota.cluster.node_record import DONE, GONE, LEAVING, YIELDED, YIELDING, Present
from flota.errors import TRY_AGAIN
from flota.job.report import STOPPED, JobEnding
from flota.preemption.stop_step import agreed_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

SIGTERM = 15
OVER = (DONE, YIELDED, GONE)
ANSWER_TIME = 2.0  # seconds in which every node must say how far it is
LEAD_TIME = 1.0  # seconds until every worker has heard the step


def next_word(
    job_state: JobState, by_node: dict[str, Present], lost: Collection[str], done: Collection[str], *, late: bool
) -> JobState | JobEnding | None:
    """What the coordinator says next; None while it waits. `late`: the time for answers is over."""
    records = {
        row.node: by_node[row.node].record for row in job_state.seats if row.node in by_node and row.node not in lost
    }
    stopped = JobEnding(STOPPED, 128 + SIGTERM, SIGTERM, job_state.why)
    if job_state.stop_at is None:
        asked = [row.node for row in job_state.seats if row.node not in done]
        answers = [records[node] for node in asked if node in records and records[node].state in (YIELDING, LEAVING)]
        if lost or late or not all(record.yields for record in answers):
            return stopped
        if len(answers) < len(asked):
            return None
        pace = max((record.pace for record in answers), default=0.0)
        return replace(job_state, stop_at=agreed_step([record.step for record in answers], pace, LEAD_TIME))
    over = [row.node in lost or (row.node in records and records[row.node].state in OVER) for row in job_state.seats]
    if not all(over):
        return None
    well = not lost and all(record.state != GONE for record in records.values())
    return stopped._replace(code=TRY_AGAIN) if well else stopped
