"""Whether a quiet rank is at work: what samples of it and of its threads, taken across some time, show. CPU time alone
proves nothing. Pure.
"""

from flota.hangs.stack_dump import DISK, LOCK, MAIN, RUNNING, SLEEP, SOCKET, Sample, Stack
from flota.hangs.wait_sites import idles, leading, meets_others, waits_for_python
from flota.humanize import bytes_in_words, duration_in_words
from flota.values import NamedTuple

# Of a process.
WRITES, READS = 64 << 10, 1 << 20  # bytes a second: a checkpoint, and not a log; data, and not a look at /proc
UNREADABLE = 2  # times that a stack was: one may be an accident of a busy loop
FEW = 2  # sets of children, between which one that looks at something again and again may go to and fro
COMPILERS = (
    "backend_compile", "compile_or_get_cached", "torch/_inductor/", "torch/_dynamo/", "/triton/", "cpp_extension.py",
    "tensorflow/python/eager/polymorphic_function/", "paddle/jit/",
)  # fmt: skip
VARIABLES = "its variables change"  # last, because it proves least
COMING_AND_GOING = "its children come and go"
DOUBTFUL = (VARIABLES, COMING_AND_GOING)  # a loop that only counts has such, and a monitor that starts programs
# Of a thread.
FUNCTIONS, LINES = 2, 4  # between which a loop that waits may go to and fro
BUSY = 0.05  # of one CPU: a loaded machine may give no more, and a thread that only watches the job needs less
PLENTY = 0.5  # of one CPU: threads that Python does not know, at work for one that waits
SURE = 6  # samples: a loop of a few lines is rarely found that often in the same one
EVENTS = 2  # wakes: one may be an accident


class SampledAt(NamedTuple):
    at: float
    sample: Sample


class ThreadSample(NamedTuple):
    at: float
    stack: Stack
    call: str
    gil_is_held: bool  # by any thread of the process


def work_of(history: list[SampledAt], *, on_devices: bool = False) -> str:
    """What shows that it works, in words; empty: it makes no progress. `on_devices`: waiting for one looks like
    computing."""
    if len(history) < 2:
        return ""
    samples = [one.sample for one in history]
    seconds = max(history[-1].at - history[0].at, 1e-3)
    first, last = samples[0], samples[-1]
    stacks = [stack for stack in map(leading, samples) if stack]
    if last.written - first.written > WRITES * seconds:
        return f"it writes {bytes_in_words(last.written - first.written)} in {duration_in_words(seconds)}"
    if last.read - first.read > READS * seconds:
        return f"it reads {bytes_in_words(last.read - first.read)} in {duration_in_words(seconds)}"
    if all(sample.call == DISK or sample.state == "D" for sample in samples[-2:]):
        return "it waits for a disk"
    if 0 < len(stacks) <= len(samples) - UNREADABLE:
        return "its stack changes while it is read"
    busy = (last.cpu - first.cpu) / seconds
    threads = _threads(history)
    frames = stacks[-1].frames if stacks and busy else ()
    compiles = any(part in frame.file or part == frame.function for frame in frames for part in COMPILERS)
    return (
        next(filter(None, (_work_of_thread(thread, busy, on_devices=on_devices) for thread in threads)), "")
        or ("it compiles" if compiles else "")
        or _work_of_children(history, seconds, on_devices=on_devices)
        or (VARIABLES if any(_varies(thread) and (busy > BUSY or not _sleeps(thread)) for thread in threads) else "")
    )


def is_elsewhere(history: list[SampledAt]) -> int:
    """How many of the last two samples, up to the last one, found it where none before them did."""
    places = [_lines(stack) for _, sample in history if (stack := leading(sample))]
    known = set(places[:-2])
    if not known or places[-1] in known:
        return 0
    return 1 + (places[-2] not in known)


def _work_of_children(samples: list[SampledAt], seconds: float, *, on_devices: bool) -> str:
    """Of a compiler that it has started, say. Children that run Python are judged like itself."""
    histories: dict[int, list[SampledAt]] = {}
    for at, sample in samples:
        for child in sample.children:
            histories.setdefault(child.pid, []).append(SampledAt(at, child))
    for history in histories.values():
        child = history[-1].sample
        before = history[0].sample if history[0].at == samples[0].at else Sample(child.pid)  # born since
        with_stacks = [one for one in history if one.sample.stacks]
        name = f"its child {child.name} ({child.pid})"
        if len(with_stacks) > 1:
            if work := work_of(with_stacks, on_devices=on_devices):
                return f"{name} works: {work}"
        elif not child.stacks and (child.cpu - before.cpu) / seconds > BUSY:
            return f"{name} works"
        elif child.written - before.written > WRITES * seconds:
            return f"{name} writes"
    others = {frozenset(child.pid for child in one.sample.children) for one in samples}
    return COMING_AND_GOING if len(others) > FEW else ""


def _threads(samples: list[SampledAt]) -> list[list[ThreadSample]]:
    """Histories of the main thread, and of the user's own others that are not mostly idle: the main one may wait for
    these, unless it waits for other ranks."""
    histories: dict[tuple[str, int], list[ThreadSample]] = {}
    for at, sample in samples:
        first = leading(sample)
        held = any(stack.has_gil for stack in sample.stacks)
        may_wait = not any(stack and meets_others(stack) for stack in (first, sample.main))
        for stack in sample.stacks:
            if stack.thread == MAIN or stack is first or (may_wait and stack.own):
                one = ThreadSample(at, stack, sample.call_of(stack), held)
                histories.setdefault((stack.thread, stack.number), []).append(one)
    return [
        thread
        for (name, _), thread in histories.items()
        if name == MAIN or 2 * sum(idles(one.stack, one.call) for one in thread) < len(thread)
    ]


def _work_of_thread(thread: list[ThreadSample], busy: float, *, on_devices: bool) -> str:
    """`busy`: CPUs that the process has used. A loop that waits has few places; one that works has many, or leaves one
    for good."""
    places = [_lines(one.stack) for one in thread]
    functions = {(place[0][:2], *place[1:]) for place in places if place}
    half = len(places) // 2
    if len(functions) > FUNCTIONS or len(set(places)) > LINES:
        return "its stack changes"
    if half > 1 and not set(places[half:]) & set(places[:half]):
        return "its stack has changed"
    if any(meets_others(one.stack) for one in thread):
        return ""
    if not on_devices and busy > BUSY and _computes(thread, busy):
        return "it computes"
    return "it sends or receives" if _transfers(thread) else ""


def _lines(stack: Stack) -> tuple[tuple[str, str, int], ...]:
    return tuple((frame.file, frame.function, frame.line) for frame in stack.frames)


def _computes(thread: list[ThreadSample], busy: float) -> bool:
    """Native code. A loop in Python that does nothing but check a condition has the GIL nearly always, as has some
    native code, which is in a line that calls it. What has let go of the GIL may have threads of its own."""

    def most(*which: bool) -> bool:
        return 2 * sum(which) > len(thread)

    if most(*(one.call == RUNNING for one in thread)):
        stays = len(thread) >= SURE and len({_lines(one.stack) for one in thread}) == 1
        text = own.text if (own := thread[-1].stack.own) else ""
        calls = "(" in text and not text.startswith("while ")
        return (stays and calls) or most(*(not one.stack.has_gil for one in thread))
    waits = (one.call == LOCK and not one.gil_is_held and not waits_for_python(one.stack) for one in thread)
    return busy > PLENTY and thread[0].stack.thread == MAIN and most(*waits)


def _transfers(thread: list[ThreadSample]) -> bool:
    """Something has come at a socket, or could go, again and again: it wakes more often than its waits end."""
    if not all(one.call in (SOCKET, RUNNING) for one in thread):
        return False
    limit = min((one.stack.task.limit for one in thread if one.call == SOCKET), default=0.0)
    woken = thread[-1].stack.task.wakes - thread[0].stack.task.wakes
    return woken >= EVENTS and woken * limit > EVENTS * (thread[-1].at - thread[0].at)


def _varies(thread: list[ThreadSample]) -> bool:
    """Whether variables of the user's own functions change; of a library's as well while it runs: where it waits, they
    are times."""
    runs = all(one.call == RUNNING and not meets_others(one.stack) for one in thread)
    return len({tuple(frame.variables for frame in one.stack.frames if runs or frame.is_own) for one in thread}) > 1


def _sleeps(thread: list[ThreadSample]) -> bool:
    """Mostly, and otherwise waits for a CPU: a loop that only counts how often."""
    calls = [one.call for one in thread]
    return set(calls) <= {SLEEP, RUNNING} and 2 * calls.count(SLEEP) >= len(calls)
