"""Whether a quiet rank is at work: what samples of it, taken across some time, show. CPU time alone proves nothing.
Pure.
"""

from __future__ import annotations

from flota.hangs.stack import DISK, Sample
from flota.hangs.threads import BUSY, variables_change, work_of_threads
from flota.hangs.wait_sites import compiles, leading
from flota.values import NamedTuple
from flota.wording import bytes_in_words, duration_in_words

FEW = 2  # sets of children, between which one that looks at something again and again may go to and fro
UNREADABLE = 2  # times that a stack was: one may be an accident of a busy loop
WRITES = 64 << 10  # bytes a second: a checkpoint, and no log
VARIABLES = "its variables change"  # last, because it proves least
COMING_AND_GOING = "its children come and go"
DOUBTFUL = (VARIABLES, COMING_AND_GOING)  # a loop that only counts has such, and a monitor that starts programs
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
        return f"it writes {bytes_in_words(last.written - first.written)} in {duration_in_words(seconds)}"
    if last.read - first.read > READS * seconds:
        return f"it reads {bytes_in_words(last.read - first.read)} in {duration_in_words(seconds)}"
    if all(sample.call == DISK or sample.state == "D" for sample in samples[-2:]):
        return "it waits for a disk"
    busy = (last.cpu - first.cpu) / seconds
    return (
        ("its stack changes while it is read" if 0 < len(stacks) <= len(samples) - UNREADABLE else "")
        or work_of_threads(seen, busy, on_devices=on_devices)
        or ("it compiles" if stacks and _burns(first, last) and compiles(stacks[-1]) else "")
        or _children_work(seen, seconds, on_devices=on_devices)
        or (VARIABLES if variables_change(seen, busy) else "")
    )


def _children_work(seen: list[Seen], seconds: float, *, on_devices: bool) -> str:
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
            work = work_of(with_stacks, on_devices=on_devices)
            if work:
                return f"its child {child.name} ({child.pid}) works: {work}"
        elif not child.stacks and ((child.cpu - before.cpu) / seconds > BUSY or _wants_cpu(history)):
            return f"its child {child.name} ({child.pid}) works"
        elif child.written - before.written > WRITES * seconds:
            return f"its child {child.name} ({child.pid}) writes"
    others = [frozenset(child.pid for child in one.sample.children) for one in seen]
    return COMING_AND_GOING if len(set(others)) > FEW else ""


def _wants_cpu(history: list[Seen]) -> bool:
    """On a loaded machine it may not get any."""
    return len(history) > 2 and all(one.sample.state == "R" for one in history)


def _burns(first: Sample, last: Sample) -> bool:
    """Whether it or a child, however short its life, has used CPU time."""
    before = {child.pid: child.cpu for child in first.children}
    return last.cpu > first.cpu or any(child.cpu > before.get(child.pid, 0.0) for child in last.children)
