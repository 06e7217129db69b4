"""Where a rank stands, in a few words: the user's own line, and what it is there for. Pure."""

from __future__ import annotations

from itertools import product

from flota.hangs.stack import INSTALLED, LOCK, MAIN, PIPE, RUNNING, SLEEP, SOCKET, STOPPED, Frame, Sample, Stack
from flota.job.report import NO_STEP
from flota.job.roles import TRAINER, label
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# How it stands: in a collective, at a socket, elsewhere, stopped by a signal, or not at all, because it has ended.
KINDS = COLLECTIVE, WAITS, ELSEWHERE, HALTED, ENDED = "collective", "waits", "elsewhere", "halted", "ended"
LOADER, CHILD = "next(loader)", "the end of a child process"
# Parts of paths, and what a thread is there for. First, as loaders call all of a framework: rows that fit any frame.
LOADERS = (
    ("torch/utils/data/", ELSEWHERE, LOADER),
    ("paddle/io/", ELSEWHERE, LOADER),
    ("tensorflow/python/data/", ELSEWHERE, LOADER),
)
# Then the first row that fits a frame, from the innermost outwards.
FRAMEWORKS = (
    ("torch/multiprocessing/spawn.py", ELSEWHERE, CHILD),
    ("paddle/distributed/spawn.py", ELSEWHERE, CHILD),
    ("torch/distributed/", COLLECTIVE, ""),
    ("torch/nn/parallel/distributed.py", COLLECTIVE, ""),
    ("torch/autograd/", COLLECTIVE, ""),  # all-reduces overlap with the backward pass
    ("torch/cuda/", COLLECTIVE, ""),
    ("paddle/distributed/", COLLECTIVE, ""),
    ("paddle/base/dygraph/", COLLECTIVE, ""),
    ("jax/_src/", COLLECTIVE, ""),
    ("jax/experimental/multihost_utils.py", COLLECTIVE, ""),
    ("tensorflow/python/", COLLECTIVE, ""),
    ("deepspeed/comm/", COLLECTIVE, ""),
    ("horovod/", COLLECTIVE, ""),
)
# What Python's own library is there for, where no framework has called it: the first row that fits any frame.
LIBRARY = (
    ("multiprocessing/queues.py", ELSEWHERE, "Queue.get"),
    ("multiprocessing/popen", ELSEWHERE, CHILD),
    ("subprocess.py", ELSEWHERE, CHILD),
    ("queue.py", ELSEWHERE, "Queue.get"),
    ("threading.py", ELSEWHERE, "a lock"),
)
INLINE = "<string>"  # as multiprocessing starts its helpers
UNKNOWN = "no stack to be had"
PLAIN = ("wrapper", "inner", "decorate_context", "wrapped", "_fn")  # names that say nothing
# In a line of the user's own: calls that wait for other ranks, and for a device that does.
COLLECTIVE_WORDS = (
    "all_reduce", "allreduce", "all_gather", "allgather", "all_to_all", "alltoall", "reduce_scatter", "broadcast",
    "bcast", "barrier", ".wait(",
)  # fmt: skip
DEVICE_WORDS = (".item()", ".synchronize(", ".block_until_ready(", ".cpu()")
PASSES = ("torch/autograd/", "paddle/base/dygraph/", "jax/_src/", "tensorflow/python/")  # compute, and meet in between
LOCK_WORDS = ("acquire", "with ", "wait", ".get(", ".join(")  # waiting for Python's own
JOINS = ("join", "_wait_for_tstate_lock", "_shutdown")
COMPILERS = (
    "backend_compile", "compile_or_get_cached", "torch/_inductor/", "torch/_dynamo/", "/triton/", "cpp_extension.py",
    "tensorflow/python/eager/polymorphic_function/", "paddle/jit/",
)  # fmt: skip
CALLS = {
    SLEEP: "asleep in",
    LOCK: "waiting for a lock in",
    SOCKET: "waiting at a socket in",
    PIPE: "blocked at a pipe in",
    RUNNING: "busy in",
}


class RankPosition(NamedTuple):
    """One rank as it stands, or as it ended; on a host of many, where one is named."""

    rank: int
    kind: str
    words: str
    role: str = TRAINER
    host: str = ""
    worker: int = 0  # its number among its node's, and in its role there
    local_rank: int = 0
    pid: int = 0
    log: str = ""
    ran: float = 0.0  # seconds, so far
    step: int = NO_STEP  # the last that it told

    @property
    def label(self) -> str:
        return label(self.role, self.rank)


def leading(sample: Sample) -> Stack | None:
    """The thread that matters: the main one, unless that waits for another to end, or for something that another, which
    is not idle, may give, or for the GIL that another has and does not give back."""
    main = sample.main
    holder = next((stack for stack in sample.stacks if stack.has_gil and stack.thread != MAIN and stack.own), None)
    if holder and sample.call == LOCK:
        return holder
    if main and main.frames and main.frames[0].file.endswith("threading.py") and not meets_others(main):
        others = [stack for stack in sample.stacks if stack is not main and stack.own]
        awake = (stack for stack in others if not idles(stack, sample.call_of(stack)))
        return next(awake, others[0] if others and _joins(main) else main)
    return main or next(iter(sample.stacks), None)


def _joins(stack: Stack) -> bool:
    """Whether it waits for the end of a thread, or of what one was given to do."""
    return any(frame.function.endswith(JOINS) or "concurrent/futures/" in frame.file for frame in stack.frames)


def position_of(rank: int, sample: Sample, role: str = TRAINER) -> RankPosition:
    stack = leading(sample)
    if sample.state == STOPPED:
        words = f", {_place(stack, sample)[1]}" if sample.stacks else ""
        return RankPosition(rank, HALTED, f"stopped by a signal{words}", role, pid=sample.pid)
    child = next(filter(_trains, sample.children), None) if stack and _waits_for_a_child(stack) else None
    if child:
        return position_of(rank, child, role)._replace(pid=sample.pid)
    kind, words = _place(stack, sample)
    return RankPosition(rank, kind, words, role, pid=sample.pid)


def _waits_for_a_child(stack: Stack) -> bool:
    return _purpose(stack)[1] == CHILD


def _trains(child: Sample) -> bool:
    """Whether it runs a file of the user's own that is no wrapper around yet another process."""
    stack = leading(child)
    own = stack.own if stack else None
    return stack is not None and own is not None and own.file != INLINE and not _waits_for_a_child(stack)


def _place(stack: Stack | None, sample: Sample) -> tuple[str, str]:
    if stack is None or not stack.frames:
        words = CALLS.get(sample.call, "").removesuffix(" in") or UNKNOWN
        return (WAITS if sample.call == SOCKET else ELSEWHERE), words
    own, call = stack.own, sample.call_of(stack)
    frame = own or stack.frames[0]
    kind, what = _purpose(stack)
    if kind:
        return kind, f"in {what} at {frame.place}"
    if _says(frame, (*COLLECTIVE_WORDS, *DEVICE_WORDS)):
        return COLLECTIVE, f"in `{frame.text}` at {frame.place}"
    doing = CALLS.get(call, "in")
    if stack.has_gil and (stack.thread != MAIN or call not in (RUNNING, "")):
        doing = "holding the GIL in"
    return (WAITS if call == SOCKET else ELSEWHERE), f"{doing} {frame.function} at {frame.place}"


def _purpose(stack: Stack) -> tuple[str, str]:
    """What library frames inside of the user's own say; nothing where there are none that we know."""
    inner = _inside(stack)
    rows = (
        *product(LOADERS, inner),
        *((row, frame) for frame, row in product(inner, FRAMEWORKS)),
        *product(LIBRARY, inner),
    )
    for (part, kind, word), frame in rows:
        if part in frame.file:
            return kind, word or _call(frame for frame in inner if part.partition("/")[0] in frame.file)
    return "", ""


def _inside(stack: Stack) -> tuple[Frame, ...]:
    """What the innermost line of the user's own has called."""
    own = stack.own
    return stack.frames[: stack.frames.index(own)] if own else stack.frames


def _says(frame: Frame, words: tuple[str, ...]) -> bool:
    return any(word in frame.text.lower() for word in words)


def idles(stack: Stack, call: str) -> bool:
    return call == SLEEP or (call == LOCK and waits_for_python(stack))


def waits_for_python(stack: Stack) -> bool:
    """Whether what it waits for is a lock, a thread or a process of Python's, and nothing in native code."""
    own = stack.own
    if own is not None and own is stack.frames[0]:
        return _says(own, LOCK_WORDS)
    return _purpose(stack)[0] == ELSEWHERE and not any(part in stack.frames[0].file for part in INSTALLED)


def meets_others(stack: Stack) -> bool:
    """Whether ranks wait for each other there, as far as the CPU goes: the passes of a framework compute, too."""
    met = [part for part, kind, _ in FRAMEWORKS if kind == COLLECTIVE and part not in PASSES]
    if any(part in frame.file for frame in _inside(stack) for part in met):
        return True
    own = stack.own
    return own is not None and _says(own, COLLECTIVE_WORDS) and not _purpose(stack)[0]


def _call(frames: Iterable[Frame]) -> str:
    """The outermost call with a name that tells something: what the user's own code has called."""
    names = [frame.function.rpartition(".")[2] for frame in frames]
    telling = [name for name in names if not name.startswith("_") and name not in PLAIN]
    return (telling or names)[-1]


def compiles(stack: Stack) -> bool:
    return any(part in frame.file or part == frame.function for frame in stack.frames for part in COMPILERS)
