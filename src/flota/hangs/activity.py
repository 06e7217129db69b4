"""Whether a quiet rank is active, by samples of it and of its threads over some time. CPU time alone is not evidence.
Pure.
"""

from flota.hangs.stack_dump import DISK, LOCK, MAIN, RUNNING, SLEEP, SOCKET, Sample, Stack
from flota.hangs.wait_sites import is_idle, is_in_collective, relevant_thread, waits_for_python
from flota.humanize import bytes_in_words, duration_in_words
from flota.values import NamedTuple

# For a process.
# Bytes per second: a log writes less, and a checkpoint more; polling /proc reads less, and a data loader more.
WRITE_RATE, READ_RATE = 64 << 10, 1 << 20
MIN_UNREADABLE = 2  # samples without a stack: a single one may be an accident in a busy loop
MAX_CHILD_SETS = 2  # sets of children, between which a process that polls may alternate
COMPILERS = (
    "backend_compile", "compile_or_get_cached", "torch/_inductor/", "torch/_dynamo/", "/triton/", "cpp_extension.py",
    "tensorflow/python/eager/polymorphic_function/", "paddle/jit/",
)  # fmt: skip
VARIABLES = "its variables are changing"  # the last check, because it is the weakest evidence
CHILDREN_CHANGE = "its child processes are changing"
WEAK_EVIDENCE = (VARIABLES, CHILDREN_CHANGE)  # also true of loops that only count, and of monitors
# For a thread.
MAX_FUNCTIONS, MAX_LINES = 2, 4  # between which a loop that waits may alternate
MIN_CPU = 0.05  # of one CPU: a loaded machine may give no more, and a monitoring thread needs less
NATIVE_CPU = 0.5  # of one CPU: used by native threads for a Python thread that waits
SAME_LINE_SAMPLES = 6  # samples: a loop of a few lines is rarely found in the same line that often
MIN_WAKES = 2  # wakes: a single one may be an accident


class SampledAt(NamedTuple):
    at: float
    sample: Sample


class ThreadSample(NamedTuple):
    at: float
    stack: Stack
    call: str
    gil_is_held: bool  # by any thread of the process


def work_of(history: list[SampledAt], *, on_devices: bool = False) -> str:
    """The evidence that it is active, in words; empty: it makes no progress. `on_devices`: waiting for a device looks
    like computing, so computing is not evidence."""
    if len(history) < 2:
        return ""
    samples = [one.sample for one in history]
    seconds = max(history[-1].at - history[0].at, 1e-3)
    first, last = samples[0], samples[-1]
    stacks = [stack for stack in map(relevant_thread, samples) if stack]
    if last.written - first.written > WRITE_RATE * seconds:
        return f"it wrote {bytes_in_words(last.written - first.written)} in {duration_in_words(seconds)}"
    if last.read - first.read > READ_RATE * seconds:
        return f"it read {bytes_in_words(last.read - first.read)} in {duration_in_words(seconds)}"
    if all(sample.call == DISK or sample.state == "D" for sample in samples[-2:]):
        return "it is waiting for a disk"
    if 0 < len(stacks) <= len(samples) - MIN_UNREADABLE:
        return "its stack is changing"
    busy = (last.cpu - first.cpu) / seconds
    threads = _threads(history)
    frames = stacks[-1].frames if stacks and busy else ()
    compiles = any(part in frame.file or part == frame.function for frame in frames for part in COMPILERS)
    return (
        next(filter(None, (_work_of_thread(thread, busy, on_devices=on_devices) for thread in threads)), "")
        or ("it is compiling" if compiles else "")
        or _work_of_children(history, seconds, on_devices=on_devices)
        or (VARIABLES if any(_varies(thread) and (busy > MIN_CPU or not _sleeps(thread)) for thread in threads) else "")
    )


def is_elsewhere(history: list[SampledAt]) -> int:
    """How many of the last samples, at most two, show it at a place that is not in the earlier ones."""
    places = [_lines(stack) for _, sample in history if (stack := relevant_thread(sample))]
    known = set(places[:-2])
    if not known or places[-1] in known:
        return 0
    return 1 + (places[-2] not in known)


def _work_of_children(samples: list[SampledAt], seconds: float, *, on_devices: bool) -> str:
    """Evidence in its children, for example a compiler. Children that run Python are checked like the rank itself."""
    histories: dict[int, list[SampledAt]] = {}
    for at, sample in samples:
        for child in sample.children:
            histories.setdefault(child.pid, []).append(SampledAt(at, child))
    for history in histories.values():
        child = history[-1].sample
        before = history[0].sample if history[0].at == samples[0].at else Sample(child.pid)  # started since
        with_stacks = [one for one in history if one.sample.stacks]
        name = f"its child {child.name} ({child.pid})"
        if len(with_stacks) > 1:
            if work := work_of(with_stacks, on_devices=on_devices):
                return f"{name} is active: {work}"
        elif not child.stacks and (child.cpu - before.cpu) / seconds > MIN_CPU:
            return f"{name} is active"
        elif child.written - before.written > WRITE_RATE * seconds:
            return f"{name} is writing"
    others = {frozenset(child.pid for child in one.sample.children) for one in samples}
    return CHILDREN_CHANGE if len(others) > MAX_CHILD_SETS else ""


def _threads(samples: list[SampledAt]) -> list[list[ThreadSample]]:
    """Histories of the main thread, and of other threads with the user's code that are not mostly idle: the main thread
    may wait for these, unless it waits for other ranks."""
    histories: dict[tuple[str, int], list[ThreadSample]] = {}
    for at, sample in samples:
        first = relevant_thread(sample)
        held = any(stack.has_gil for stack in sample.stacks)
        may_wait = not any(stack and is_in_collective(stack) for stack in (first, sample.main))
        for stack in sample.stacks:
            if stack.thread == MAIN or stack is first or (may_wait and stack.own):
                one = ThreadSample(at, stack, sample.call_of(stack), held)
                histories.setdefault((stack.thread, stack.number), []).append(one)
    return [
        thread
        for (name, _), thread in histories.items()
        if name == MAIN or 2 * sum(is_idle(one.stack, one.call) for one in thread) < len(thread)
    ]


def _work_of_thread(thread: list[ThreadSample], busy: float, *, on_devices: bool) -> str:
    """`busy`: the CPUs that the process uses. A loop that waits is found at few places; one that works at many, or it
    moves to other places for good."""
    places = [_lines(one.stack) for one in thread]
    functions = {(place[0][:2], *place[1:]) for place in places if place}
    half = len(places) // 2
    if len(functions) > MAX_FUNCTIONS or len(set(places)) > MAX_LINES:
        return "its stack is changing"
    if half > 1 and not set(places[half:]) & set(places[:half]):
        return "its stack has changed"
    if any(is_in_collective(one.stack) for one in thread):
        return ""
    if not on_devices and busy > MIN_CPU and _computes(thread, busy):
        return "it is computing"
    return "it is sending or receiving" if _transfers(thread) else ""


def _lines(stack: Stack) -> tuple[tuple[str, str, int], ...]:
    return tuple((frame.file, frame.function, frame.line) for frame in stack.frames)


def _computes(thread: list[ThreadSample], busy: float) -> bool:
    """Whether native code computes. A loop in Python that only checks a condition holds the GIL nearly always. So does
    some native code, but its line contains a call. Native code that has released the GIL may use its own threads."""

    def most(*which: bool) -> bool:
        return 2 * sum(which) > len(thread)

    if most(*(one.call == RUNNING for one in thread)):
        stays = len(thread) >= SAME_LINE_SAMPLES and len({_lines(one.stack) for one in thread}) == 1
        text = own.text if (own := thread[-1].stack.own) else ""
        calls = "(" in text and not text.startswith("while ")
        return (stays and calls) or most(*(not one.stack.has_gil for one in thread))
    waits = (one.call == LOCK and not one.gil_is_held and not waits_for_python(one.stack) for one in thread)
    return busy > NATIVE_CPU and thread[0].stack.thread == MAIN and most(*waits)


def _transfers(thread: list[ThreadSample]) -> bool:
    """Whether it transfers data over a socket: it wakes more often than its timeouts explain."""
    if not all(one.call in (SOCKET, RUNNING) for one in thread):
        return False
    limit = min((one.stack.task.limit for one in thread if one.call == SOCKET), default=0.0)
    woken = thread[-1].stack.task.wakes - thread[0].stack.task.wakes
    return woken >= MIN_WAKES and woken * limit > MIN_WAKES * (thread[-1].at - thread[0].at)


def _varies(thread: list[ThreadSample]) -> bool:
    """Whether variables of the user's functions change, or those of a library while it runs: while it waits, they are
    timestamps."""
    runs = all(one.call == RUNNING and not is_in_collective(one.stack) for one in thread)
    return len({tuple(frame.variables for frame in one.stack.frames if runs or frame.is_own) for one in thread}) > 1


def _sleeps(thread: list[ThreadSample]) -> bool:
    """Whether it sleeps at least half of the time and otherwise runs: a loop that polls."""
    calls = [one.call for one in thread]
    return set(calls) <= {SLEEP, RUNNING} and 2 * calls.count(SLEEP) >= len(calls)
