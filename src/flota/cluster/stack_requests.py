"""Where all ranks of a running job stand, because somebody has asked for it. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from flota.cluster.job_state import JobState
from flota.cluster.node_record import RUNNING, SERVING, Present
from flota.cluster.terms import listed
from flota.hangs.suspects import find_suspects, groups_in_words, suspicion
from flota.hangs.wait_sites import RankPosition

ANSWER_TIME = 10.0  # seconds in which nodes have to say it


class Looks:
    """Numbered: whoever asks wants the next one, and all who ask at the same time the same. `deadline`: when to ask
    again though nothing has changed.
    """

    def __init__(self) -> None:
        self.deadline: float | None = None

    def look(self, job_state: JobState, of_round: list[Present], now: float) -> JobState:
        wanted = max((one.record.asks for one in of_round), default=0)
        if wanted > job_state.look:
            job_state = replace(job_state, look=wanted)
        if job_state.looked == job_state.look:
            self.deadline = None
            return job_state
        self.deadline = self.deadline or now + ANSWER_TIME
        at_work = [one.record for one in of_round if one.record.state in (RUNNING, SERVING)]
        silent = [record.host for record in at_work if record.looked < job_state.look]
        if silent and now < self.deadline:
            return job_state
        self.deadline = None
        positions = tuple(row for record in at_work for row in record.seen if record.looked == job_state.look)
        return replace(job_state, looked=job_state.look, places=_places(positions, silent))


def _places(positions: tuple[RankPosition, ...], silent: list[str]) -> tuple[str, ...]:
    return (
        *groups_in_words(positions),
        *([f"if this is a hang: {suspicion(positions, find_suspects(positions))}"] if len(positions) > 1 else []),
        *([f"no answer from {listed(silent)}"] if silent else []),
    )
