"""What a rank is waiting on, in a few words: a line of the user's own code, and the call it is in: a collective, a data
loader, a lock. Pure.
"""

from itertools import product

from flota.hangs.stack_dump import INSTALLED, LOCK, MAIN, PIPE, RUNNING, SLEEP, SOCKET, STOPPED, Frame, Sample, Stack
from flota.job.report import NO_STEP
from flota.job.roles import TRAINER, label
from flota.values import NamedTuple

# A rank is in a collective, waits at a socket, is elsewhere, is stopped by a signal, or has ended.
KINDS = COLLECTIVE, WAITS, ELSEWHERE, HALTED, ENDED = "collective", "waits", "elsewhere", "halted", "ended"
LOADER, CHILD = "next(loader)", "the end of a child process"
# Parts of paths where ranks wait for each other, and where frameworks compute and do so in between.
MEETING = (
    "torch/distributed/", "torch/nn/parallel/distributed.py", "torch/cuda/", "paddle/distributed/",
    "jax/experimental/multihost_utils.py", "deepspeed/comm/", "horovod/",
)  # fmt: skip
PASSES = ("torch/autograd/", "paddle/base/dygraph/", "jax/_src/", "tensorflow/python/")
# What a thread is there for: the first row that fits any frame inside of the user's own code.
ROWS = (
    (("torch/utils/data/", "paddle/io/", "tensorflow/python/data/"), ELSEWHERE, LOADER),  # they call all of a framework
    (("torch/multiprocessing/spawn.py", "paddle/distributed/spawn.py"), ELSEWHERE, CHILD),
    ((*MEETING, *PASSES), COLLECTIVE, ""),  # its name: what the user's own code has called
    (("multiprocessing/queues.py",), ELSEWHERE, "Queue.get"),
    (("multiprocessing/popen", "subprocess.py"), ELSEWHERE, CHILD),
    (("queue.py",), ELSEWHERE, "Queue.get"),
    (("threading.py",), ELSEWHERE, "a lock"),
)
INLINE = "<string>"  # as multiprocessing starts its helpers
PLAIN = ("wrapper", "inner", "decorate_context", "wrapped", "_fn")  # names that say nothing
# In a line of the user's own: calls that wait for other ranks, and for a device that does.
COLLECTIVE_WORDS = (
    "all_reduce", "allreduce", "all_gather", "allgather", "all_to_all", "alltoall", "reduce_scatter", "broadcast",
    "bcast", "barrier", ".wait(",
)  # fmt: skip
DEVICE_WORDS = (".item()", ".synchronize(", ".block_until_ready(", ".cpu()")
LOCK_WORDS = ("acquire", "with ", "wait", ".get(", ".join(")  # waiting for Python's own
JOINS = ("join", "_wait_for_tstate_lock", "_shutdown")
CALLS = {
    SLEEP: "asleep in",
    LOCK: "waiting for a lock in",
    SOCKET: "waiting at a socket in",
    PIPE: "blocked at a pipe in",
    RUNNING: "busy in",
}


class RankPosition(NamedTuple):
    """What one rank is waiting on, or how it has ended. `kind` is empty until that is known."""

    rank: int
    kind: str
    words: str
    role: str = TRAINER
    host: str = ""  # of a job of several nodes
    worker: int = 0  # its number among its node's, and in its role there
    local_rank: int = 0
    pid: int = 0
    log: str = ""
    ran: float = 0.0  # seconds, so far
    step: int = NO_STEP  # the last that it has reported

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
        # For the end of a thread, or of what one was given to do.
        joins = any(frame.function.endswith(JOINS) or "concurrent/futures/" in frame.file for frame in main.frames)
        return next(awake, others[0] if others and joins else main)
    return main or next(iter(sample.stacks), None)


def position_of(sample: Sample) -> tuple[str, str]:
    """Which of KINDS, and words for people."""
    stack = leading(sample)
    if sample.state == STOPPED:
        words = f", {_place(stack, sample)[1]}" if sample.stacks else ""
        return HALTED, f"stopped by a signal{words}"
    child = next(filter(_trains, sample.children), None) if stack and _purpose(stack)[1] == CHILD else None
    return position_of(child) if child else _place(stack, sample)


def _trains(child: Sample) -> bool:
    """Whether it runs a file of the user's own, and is not a wrapper around yet another process."""
    stack = leading(child)
    return bool(stack and stack.own and stack.own.file != INLINE and _purpose(stack)[1] != CHILD)


def _place(stack: Stack | None, sample: Sample) -> tuple[str, str]:
    if stack is None or not stack.frames:
        words = CALLS.get(sample.call, "").removesuffix(" in") or "no stack to be had"
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
    for parts, kind, word in ROWS:
        for part, frame in product(parts, inner):
            if part in frame.file:
                return kind, word or _outermost_call([one for one in inner if part.partition("/")[0] in one.file])
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
    """Whether ranks wait for each other there, as far as the CPU goes: the passes of a framework also compute."""
    own = stack.own
    return any(part in frame.file for frame in _inside(stack) for part in MEETING) or (
        own is not None and _says(own, COLLECTIVE_WORDS) and not _purpose(stack)[0]
    )


def _outermost_call(frames: list[Frame]) -> str:
    """That has a telling name: what the user's own code has called."""
    names = [frame.function.rpartition(".")[2] for frame in frames]
    telling = [name for name in names if not name.startswith("_") and name not in PLAIN]
    return (telling or names)[-1]
