"""Whether a quiet rank is at work: what samples of it, taken across some time, show. CPU time alone proves nothing."""

from __future__ import annotations

from flota.supervise.places import COLLECTIVE_WORDS, compiles, leading
from flota.supervise.stacks import DISK, RUNNING, Frame, Sample, Stack
from flota.values import NamedTuple

SPINNING, LINES = 2, 4  # functions, and lines, between which a loop that waits may go to and fro
UNREADABLE = 2  # times that a stack was: one may be an accident of a busy loop
BUSY = 0.05  # of one CPU: a loaded machine may give no more, and who only watches the job needs less
WRITES = 64 << 10  # bytes a second: a checkpoint, and no log
READS = 1 << 20  # bytes a second: data, and nobody who looks at /proc


class Seen(NamedTuple):
    at: float
    sample: Sample


def work_of(seen: list[Seen], *, on_devices: bool = False) -> str:
    """What shows that it works, in words; empty: it stands still. `on_devices`: waiting for one looks like work."""
    if len(seen) < 2:
        return "not seen for long enough"
    samples = [one.sample for one in seen]
    seconds = max(seen[-1].at - seen[0].at, 1e-3)
    first, last = samples[0], samples[-1]
    stacks = [stack for stack in map(leading, samples) if stack]
    if last.written - first.written > WRITES * seconds:
        return f"it writes {_size(last.written - first.written)} in {seconds:.0f} s"
    if last.read - first.read > READS * seconds:
        return f"it reads {_size(last.read - first.read)} in {seconds:.0f} s"
    if all(sample.call == DISK or sample.state == "D" for sample in samples[-2:]):
        return "it waits for a disk"
    busy = (last.cpu - first.cpu) / seconds
    return (
        ("its stack changes while it is read" if 0 < len(stacks) <= len(samples) - UNREADABLE else "")
        or _moves(stacks)
        or ("it compiles" if stacks and _burns(first, last) and compiles(stacks[-1]) else "")
        or ("it computes" if not on_devices and busy > BUSY and _computes(samples, stacks) else "")
        or _children_work(seen, seconds)
    )


def _moves(stacks: list[Stack]) -> str:
    """A loop that waits has few places. One that works has many, or leaves one for good, or its variables change."""
    places = [tuple(_position(frame) for frame in stack.frames) for stack in stacks]
    functions = {(place[0][:2], *place[1:]) for place in places if place}
    if len(functions) > SPINNING or len(set(places)) > LINES:
        return "its stack changes"
    half = len(places) // 2
    if half > 1 and not set(places[half:]) & set(places[:half]):
        return "its stack has changed"
    own = [tuple(frame.variables for frame in stack.frames if frame.is_own) for stack in stacks]
    return "its variables change" if len(set(own)) > 1 else ""


def _position(frame: Frame) -> tuple[str, str, int]:
    return frame.file, frame.function, frame.line


def _computes(samples: list[Sample], stacks: list[Stack]) -> bool:
    """Native code that has let go of the GIL, in a line of the user's own that waits for nobody; a loop in Python that
    does nothing but look at a condition has the GIL nearly always."""
    running = sum(sample.call == RUNNING for sample in samples)
    owned = [stack.frames[0] for stack in stacks if stack.frames and stack.frames[0].is_own and not stack.has_gil]
    waits = any(word in frame.text for frame in owned for word in COLLECTIVE_WORDS)
    return not waits and 2 * len(owned) > len(samples) and 2 * running > len(samples)


def _children_work(seen: list[Seen], seconds: float) -> str:
    """A compiler that it has started, say. Those that run Python are judged like itself."""
    histories: dict[int, list[Seen]] = {}
    for one in seen:
        for child in one.sample.children:
            histories.setdefault(child.pid, []).append(Seen(one.at, child))
    for history in histories.values():
        child = history[-1].sample
        with_stacks = [one for one in history if one.sample.stacks]
        before = history[0].sample if history[0].at == seen[0].at else Sample(child.pid)  # born since
        if len(with_stacks) > 1:
            work = work_of(with_stacks)
            if work:
                return f"its child {child.name} ({child.pid}) works: {work}"
        elif not child.stacks and ((child.cpu - before.cpu) / seconds > BUSY or _wants_cpu(history)):
            return f"its child {child.name} ({child.pid}) works"
        elif child.written - before.written > WRITES * seconds:
            return f"its child {child.name} ({child.pid}) writes"
    others = [frozenset(child.pid for child in one.sample.children) for one in seen]
    return "its children come and go" if len(set(others)) > SPINNING else ""


def _wants_cpu(history: list[Seen]) -> bool:
    """On a loaded machine it may not get any."""
    return len(history) > 2 and all(one.sample.state == "R" for one in history)


def _burns(first: Sample, last: Sample) -> bool:
    """Whether it or a child, however short its life, has used CPU time."""
    before = {child.pid: child.cpu for child in first.children}
    return last.cpu > first.cpu or any(child.cpu > before.get(child.pid, 0.0) for child in last.children)


def _size(count: int) -> str:
    return f"{count / (1 << 20):.1f} MB"
