"""When all nodes of a round stand still: where all ranks of the job stand, and who makes the others wait. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from flota.cluster.job_state import ROLL_CALL, JobState
from flota.cluster.job_state import RUNNING as ROUND_RUNS
from flota.cluster.node_record import FAILED, RUNNING, SERVING, STACKED, Present
from flota.errors import HANG
from flota.failures.diagnosis import HINTS
from flota.hangs.suspects import find_suspects, in_words
from flota.hangs.wait_sites import ENDED, RankPosition
from flota.job.causes import HUNG, LEFT_EARLY
from flota.job.report import HANG_IN_WORDS, NO_STEP, FailedWorker
from flota.wording import duration_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

ANSWER_TIME = 20.0  # seconds in which every node must say where its ranks stand: some have to abort them for it
MOST_SUSPECTS = 8
TOGETHER = 0.2  # of the timeout
GOES_ON = 0.45  # of it, after a node has done its work: so long may it take another to see that its ranks go on now


class AllIdle:
    """Whether all nodes stand still together: one may have waited for long for another that has just ended its work,
    and the next moment it will go on. `deadline`: when to ask again though nothing has changed.
    """

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._since, self._part = 0.0, TOGETHER
        self._done: frozenset[str] | None = None

    def lasts(self, job_state: JobState, of_round: list[Present], done: Collection[str], now: float) -> bool:
        timeout = all_stand(job_state, of_round, done)
        if timeout is None:
            self.deadline = self._done = None
            return False
        if self._done != frozenset(done):
            self._part = TOGETHER if self._done is None else GOES_ON
            self._since, self._done = now, frozenset(done)
        enough = self._since + self._part * timeout
        self.deadline = enough if now < enough else None
        return now >= enough


def all_stand(job_state: JobState, of_round: list[Present], done: Collection[str]) -> float | None:
    """The shortest timeout after which every node that has work says that its workers stand still; None: one does not
    say so."""
    records = {one.node: one.record for one in of_round}
    at_work = [row.node for row in job_state.seats if row.node not in done]
    busy = [node for node in at_work if node not in records or records[node].state != SERVING]
    still = [
        records[node] for node in busy if node in records and records[node].state == RUNNING and records[node].stands
    ]
    return min(record.timeout for record in still) if still and len(still) == len(busy) else None


def next_word(
    job_state: JobState, by_node: dict[str, Present], lost: Collection[str], done: Collection[str], *, late: bool
) -> JobState | None:
    """What the coordinator says next; None while it waits for answers. Who fails meanwhile fails because of the hang.
    Workers
    are aborted last, because ranks of other nodes fail when they are; until then the job may turn out not to hang."""
    records = [by_node[row.node].record for row in job_state.seats if row.node in by_node and row.node not in lost]
    if not job_state.aborts and any(record.state == RUNNING and not record.stands for record in records):
        return replace(job_state, phase=ROUND_RUNS, false_alarms=job_state.false_alarms + 1)
    answered = [record for record in records if record.positions or record.state in (STACKED, FAILED, SERVING)]
    asked = [row for row in job_state.seats if row.node in by_node or row.node not in done]
    if len(answered) < len(asked) and not late:
        blind = [record for record in records if record.blind and record not in answered]
        aborts = bool(blind) and len(answered) + len(blind) == len(asked)
        return replace(job_state, aborts=True) if aborts and not job_state.aborts else None
    positions = tuple(row for record in records for row in record.positions)
    quiet = max((record.stands for record in records), default=0.0)
    host = records[0].host if records else ""
    failures = _faults(positions, quiet, job_state.attempt) or (_nobodys(positions, quiet, host, job_state.attempt),)
    return replace(job_state, phase=ROLL_CALL, failures=failures)


def _faults(positions: tuple[RankPosition, ...], quiet: float, attempt: int) -> tuple[FailedWorker, ...]:
    words = _words(positions, quiet, attempt)
    return tuple(
        FailedWorker(
            rank=one.rank,
            local_rank=one.local_rank,
            node=one.host,
            pid=one.pid,
            code=HANG,
            cause=LEFT_EARLY if one.kind == ENDED else HUNG,
            ending=HANG_IN_WORDS,
            ran=one.ran,
            log=one.log,
            said=words,
            role=one.role,
            attempt=attempt,
            step=one.step,
            hint=HINTS[LEFT_EARLY] if one.kind == ENDED else "",
        )
        for one in find_suspects(positions)[:MOST_SUSPECTS]
    )


def _nobodys(positions: tuple[RankPosition, ...], quiet: float, host: str, attempt: int) -> FailedWorker:
    return FailedWorker(
        rank=-1,
        local_rank=-1,
        node=host,
        pid=0,
        code=HANG,
        cause=HUNG,
        ending=HANG_IN_WORDS,
        ran=max((one.ran for one in positions), default=0.0),
        log="",
        said=_words(positions, quiet, attempt),
        attempt=attempt,
        step=max((one.step for one in positions), default=NO_STEP),
    )


def _words(positions: tuple[RankPosition, ...], quiet: float, attempt: int) -> tuple[str, ...]:
    what = "step" if positions and all(one.step != NO_STEP for one in positions) else "output"
    return (
        f"no {what} for {duration_in_words(quiet)}, and no rank is seen at work",
        *in_words(positions),
        f"stacks: in the log directory of each node, stacks.{attempt}.HOST.txt",
    )
