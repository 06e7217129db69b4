"""The times that a worker adds up in its page of the channel, as worker/work_times.py packs them. Pure."""

from __future__ import annotations

from flota.host.channel import NO_STEP
from flota.host.heartbeat_page import STEP_WENT_BACK, Heartbeat, read_numbers
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TIMES = "=dddddddqqh"  # as in worker/work_times.py
MOST_PHASES = 16
DIGITS = 6  # microseconds
LARGEST = 1e15  # seconds and steps in events


class PageTimes(NamedTuple):
    """Where the time of a worker went until it last wrote. Times are monotonic, 0.0 if unknown."""

    opened: float = 0.0  # the first call of flota
    first_at: float = 0.0  # the first step
    last_at: float = 0.0
    step_seconds: float = 0.0  # from the first to the last step, without phases
    phases_before: float = 0.0  # seconds in phases before the first step
    marked_at: float = 0.0  # the last step, or begin or end of a phase: an open phase is counted until then
    saved_seconds: float = 0.0  # `step_seconds` at the end of the last checkpoint
    first_step: int = NO_STEP
    last_step: int = NO_STEP
    saved_step: int = NO_STEP
    phase: str = ""  # the open phase
    went_back: bool = False  # the step is lower than an earlier one
    output_at: float = 0.0  # the first output, found by the node
    phases: tuple[tuple[str, float], ...] = ()  # names and seconds


NOTHING = PageTimes()


def decode_times(beat: Heartbeat) -> PageTimes:
    """The times of a page; none if the worker has written something else there."""
    from struct import calcsize, unpack_from

    if len(beat.times) < calcsize(TIMES):
        return NOTHING
    opened, first_at, last_at, in_steps, before, marked_at, saved, first_step, saved_step, number = unpack_from(
        TIMES, beat.times
    )
    phases = read_numbers(beat.times[calcsize(TIMES) :])
    return PageTimes(
        *(_duration(opened), _duration(first_at), _duration(last_at)),
        *(_duration(in_steps), _duration(before), _duration(marked_at), _duration(saved)),
        first_step=first_step,
        last_step=beat.step,
        saved_step=saved_step,
        phase=[*phases][number] if 0 <= number < len(phases) else "",
        went_back=bool(beat.flags & STEP_WENT_BACK),
        phases=_phases(phases),
    )


def _duration(value: object) -> float:
    """The number; 0.0 for anything that cannot be a time, such as NaN."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value <= LARGEST else 0.0


def _phases(phases: Mapping[str, object]) -> tuple[tuple[str, float], ...]:
    return tuple((str(name), _duration(seconds)) for name, seconds in phases.items())[:MOST_PHASES]


def times_as_dict(times: PageTimes) -> dict[str, object]:
    """For an event: only what is known."""
    known = {name: value for name, value in zip(times._fields, times, strict=True) if value != getattr(NOTHING, name)}
    rounded = {name: round(value, DIGITS) if isinstance(value, float) else value for name, value in known.items()}
    phases = {name: round(seconds, DIGITS) for name, seconds in times.phases}
    return {**rounded, **({"phases": phases} if phases else {})}


def times_from_dict(data: Mapping[str, object]) -> PageTimes:
    """Read what `times_as_dict` wrote; a value that it cannot have written counts as unknown."""
    values: dict[str, object] = {}
    for name, default in PageTimes._field_defaults.items():
        value = data.get(name, default)
        if isinstance(default, float):
            values[name] = _duration(value)
        elif isinstance(default, tuple):
            values[name] = _phases(value) if isinstance(value, dict) else ()
        elif type(value) is type(default) and not (type(value) is int and abs(value) > LARGEST):
            values[name] = value
    return PageTimes(**values)  # type: ignore[arg-type]
