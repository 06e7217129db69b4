"""Whether a thread of a quiet rank is at work: what looks at it, taken across some time, show. Pure."""

from __future__ import annotations

from flota.hangs.stack import LOCK, MAIN, RUNNING, SLEEP, SOCKET, Frame, Sample, Stack
from flota.hangs.wait_sites import idles, leading, meets_others, waits_for_python
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SPINNING, LINES = 2, 4  # functions, and lines, between which a loop that waits may go to and fro
BUSY = 0.05  # of one CPU: a loaded machine may give no more, and who only watches the job needs less
PLENTY = 0.5  # of one CPU: threads that Python knows nothing of, at work for one that waits
SURE = 6  # looks: a loop of a few lines is rarely found that often in the same one
EVENTS = 2  # wakes: one may be an accident


class ThreadLook(NamedTuple):
    at: float
    stack: Stack
    call: str
    gil_is_held: bool  # by any thread of the process


def work_of_threads(samples: Sequence[tuple[float, Sample]], busy: float, *, on_devices: bool) -> str:
    """`busy`: CPUs that the process has used. On devices, waiting for one looks like computing."""
    for looks in _histories(samples):
        work = (
            _moves([look.stack for look in looks])
            or ("it computes" if not on_devices and busy > BUSY and _computes(looks, busy) else "")
            or ("it sends or receives" if _transfers(looks) else "")
        )
        if work:
            return work
    return ""


def variables_change(samples: Sequence[tuple[float, Sample]], busy: float) -> bool:
    """In more than a loop that sleeps and counts how often."""
    return any(_varies(looks) and (busy > BUSY or not _sleeps(looks)) for looks in _histories(samples))


def _sleeps(looks: list[ThreadLook]) -> bool:
    """Mostly, and otherwise waits for a CPU."""
    calls = [look.call for look in looks]
    return set(calls) <= {SLEEP, RUNNING} and 2 * calls.count(SLEEP) >= len(calls)


def _histories(samples: Sequence[tuple[float, Sample]]) -> list[list[ThreadLook]]:
    """Of the main thread, and of the user's own others that are not mostly idle: it may wait for these, unless it waits
    for other ranks."""
    histories: dict[tuple[str, int], list[ThreadLook]] = {}
    for at, sample in samples:
        first = leading(sample)
        held = any(stack.has_gil for stack in sample.stacks)
        waits = not (first and meets_others(first)) and not (sample.main and meets_others(sample.main))
        for stack in sample.stacks:
            if stack.thread == MAIN or stack is first or (waits and stack.own):
                look = ThreadLook(at, stack, sample.call_of(stack), held)
                histories.setdefault((stack.thread, stack.number), []).append(look)
    return [looks for looks in histories.values() if looks[0].stack.thread == MAIN or not _mostly_idle(looks)]


def _mostly_idle(looks: list[ThreadLook]) -> bool:
    return 2 * sum(idles(look.stack, look.call) for look in looks) >= len(looks)


def _moves(stacks: list[Stack]) -> str:
    """A loop that waits has few places. One that works has many, or leaves one for good."""
    places = [_positions(stack) for stack in stacks]
    functions = {(place[0][:2], *place[1:]) for place in places if place}
    if len(functions) > SPINNING or len(set(places)) > LINES:
        return "its stack changes"
    half = len(places) // 2
    return "its stack has changed" if half > 1 and not set(places[half:]) & set(places[:half]) else ""


def looks_elsewhere(samples: Sequence[tuple[float, Sample]]) -> int:
    """How many of the last two looks, up to the last one, found it where none before them did."""
    places = [_positions(stack) for _, sample in samples if (stack := leading(sample))]
    known = set(places[:-2])
    if not known or places[-1] in known:
        return 0
    return 1 + (places[-2] not in known)


def _positions(stack: Stack) -> tuple[tuple[str, str, int], ...]:
    return tuple((frame.file, frame.function, frame.line) for frame in stack.frames)


def _varies(looks: list[ThreadLook]) -> bool:
    """Of the user's own functions; of a library's, too, while it runs: where it waits, they are times."""
    runs = all(look.call == RUNNING and not meets_others(look.stack) for look in looks)
    known = [tuple(frame.variables for frame in look.stack.frames if runs or frame.is_own) for look in looks]
    return len(set(known)) > 1


def _computes(looks: list[ThreadLook], busy: float) -> bool:
    """Native code. A loop in Python that does nothing but look at a condition has the GIL nearly always, as has some
    native code, which stands in a line that calls it. What has let go of the GIL may have threads of its own."""
    if any(meets_others(look.stack) for look in looks):
        return False

    def most(*which: bool) -> bool:
        return 2 * sum(which) > len(looks)

    if most(*(look.call == RUNNING for look in looks)):
        stacks = {_positions(look.stack) for look in looks}
        stays = len(looks) >= SURE and len(stacks) == 1 and _only_calls(looks[-1].stack.own)
        return stays or most(*(not look.stack.has_gil for look in looks))
    waits = (look.call == LOCK and not look.gil_is_held and not waits_for_python(look.stack) for look in looks)
    return busy > PLENTY and looks[0].stack.thread == MAIN and most(*waits)


def _only_calls(frame: Frame | None) -> bool:
    return frame is not None and "(" in frame.text and not frame.text.startswith("while ")


def _transfers(looks: list[ThreadLook]) -> bool:
    """Something has come at a socket, or could go, again and again: it wakes more often than its waits end."""
    if any(meets_others(look.stack) for look in looks) or not all(look.call in (SOCKET, RUNNING) for look in looks):
        return False
    limit = min((look.stack.task.limit for look in looks if look.call == SOCKET), default=0.0)
    woken = looks[-1].stack.task.wakes - looks[0].stack.task.wakes
    return woken >= EVENTS and woken * limit > EVENTS * (looks[-1].at - looks[0].at)
