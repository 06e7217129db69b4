"""The step at which all workers stop that can save and exit on their own: chosen, and sent through their channel."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
from _collections_abc import Collection

from flota.host.channel import POLLS, STEP_WENT_BACK, WANTS_SIGNAL, Channel
from flota.host.round import Round
from flota.values import NamedTuple

NOW = -1  # a worker that reports no steps
FASTEST = 1e6  # steps per second that are believed
NO_OPINION = -2  # a node without such workers
HASTE = 2.0  # steps may be faster than they were
LEAD_TIME = 0.2  # seconds until all workers of one machine have been asked: a busy node may be slow to ask the last one


class StopAnswer(NamedTuple):
    """Whether all of a node's workers that do the job's work can stop gracefully, and how far the first is. `stopped`:
    how, when they are gone."""

    can_stop: bool = True
    step: int = NO_OPINION
    pace: float = 0.0  # steps per second
    stopped: str = ""


def read_progress(channel: Channel, workers: Collection[int]) -> StopAnswer:
    beats = [channel.read(worker) for worker in workers]
    if not beats:
        return StopAnswer()
    steps = [NOW if beat.flags & STEP_WENT_BACK else beat.step for beat in beats]
    pace = max((min(1 / beat.seconds, FASTEST) for beat in beats if beat.seconds > 0), default=0.0)
    can_stop = all(beat.flags & (POLLS | WANTS_SIGNAL) for beat in beats)
    return StopAnswer(can_stop, NOW if NOW in steps else max(steps), pace)


def agreed_step(steps: list[int], pace: float, lead_time: float = LEAD_TIME) -> int:
    """A step that no worker can have passed before all of them have been asked, which takes `lead_time` seconds at
    most; `pace`: steps per second of the fastest worker."""
    known = [step for step in steps if step != NO_OPINION]
    if not known or NOW in known:
        return NOW
    return max(known) + 2 + int(HASTE * pace * lead_time)


def request_stop(channel: Channel, round_: Round, workers: Collection[int], step: int) -> None:
    """Workers read it from their pages; one that waits for a step must not be interrupted before."""
    for worker in workers:
        channel.request_stop(worker, step)
        if step == NOW and channel.read(worker).flags & WANTS_SIGNAL:
            round_.send("stop", worker, _signal.SIGTERM)
