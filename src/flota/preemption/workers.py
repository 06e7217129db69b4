"""Workers that can end by themselves, through their channel: how far they are, and asking them to."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]

from flota.host.channel import POLLS, STEP_WENT_BACK, WANTS_SIGNAL, Channel
from flota.host.round import Round
from flota.preemption.stop_step import NO_OPINION, NOW, agreed_step
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

AT_ONCE = 0.2  # seconds until all workers of one machine have heard: a busy node may be kept from telling the last one


class Progress(NamedTuple):
    """Whether all of a node's workers that do the job's work can end by themselves, and how far the first is."""

    can_stop: bool
    step: int
    pace: float = 0.0  # steps a second


NOBODY = Progress(can_stop=True, step=NO_OPINION)


def look_at(channel: Channel, workers: Collection[int]) -> Progress:
    beats = [channel.read(worker) for worker in workers]
    if not beats:
        return NOBODY
    steps = [NOW if beat.flags & STEP_WENT_BACK else beat.step for beat in beats]
    pace = max((1 / beat.seconds for beat in beats if beat.seconds), default=0.0)
    can_end = all(beat.flags & (POLLS | WANTS_SIGNAL) for beat in beats)
    return Progress(can_end, NOW if NOW in steps else max(steps), pace)


def step_ahead(standing: Progress) -> int:
    """Where all workers of one machine can stop, if they are told at once."""
    return agreed_step([standing.step], standing.pace, AT_ONCE)


def ask(channel: Channel, round_: Round, workers: Collection[int], step: int) -> None:
    """All of them hear it from their pages; who waits for a step must not be interrupted before."""
    for worker in workers:
        channel.request_stop(worker, step)
        if step == NOW and channel.read(worker).flags & WANTS_SIGNAL:
            round_.send("stop", worker, _signal.SIGTERM)
