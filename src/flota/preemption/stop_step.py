"""Chooses the step at which all workers save and exit on their own, and sends it through their channel."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
from _collections_abc import Collection

from flota.host.channel import Channel
from flota.host.heartbeat_page import POLLS, STEP_WENT_BACK, WANTS_SIGNAL
from flota.host.round import Round
from flota.values import NamedTuple

NOW = -1  # at once: a worker reports no steps
MAX_PACE = 1e6  # steps per second; more is not plausible
NO_WORKERS = -2  # the node has no such workers
SPEED_MARGIN = 2.0  # steps may become faster
LEAD_TIME = 0.2  # seconds until all workers of one machine have been asked, even if the node is busy


class StopAnswer(NamedTuple):
    """Whether all workers of a node, except those that only serve, can stop gracefully, and the furthest step.
    `stopped`: how they stopped, once they are gone."""

    can_stop: bool = True
    step: int = NO_WORKERS
    pace: float = 0.0  # steps per second
    stopped: str = ""


def read_progress(channel: Channel, workers: Collection[int]) -> StopAnswer:
    beats = [channel.read(worker) for worker in workers]
    if not beats:
        return StopAnswer()
    steps = [NOW if beat.flags & STEP_WENT_BACK else beat.step for beat in beats]
    pace = max((min(1 / beat.seconds, MAX_PACE) for beat in beats if beat.seconds > 0), default=0.0)
    can_stop = all(beat.flags & (POLLS | WANTS_SIGNAL) for beat in beats)
    return StopAnswer(can_stop, NOW if NOW in steps else max(steps), pace)


def agreed_step(steps: list[int], pace: float, lead_time: float = LEAD_TIME) -> int:
    """A step that no worker reaches before all of them have been asked, which takes at most `lead_time` seconds.
    `pace`: steps per second of the fastest worker."""
    known = [step for step in steps if step != NO_WORKERS]
    if not known or NOW in known:
        return NOW
    return max(known) + 2 + int(SPEED_MARGIN * pace * lead_time)


def request_stop(channel: Channel, round_: Round, workers: Collection[int], step: int) -> None:
    """Workers read the step from shared memory. A signal is sent only if they must stop now."""
    for worker in workers:
        channel.request_stop(worker, step)
        if step == NOW and channel.read(worker).flags & WANTS_SIGNAL:
            round_.send("stop", worker, _signal.SIGTERM)
