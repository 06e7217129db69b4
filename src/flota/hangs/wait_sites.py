"""Describes what a rank is waiting on: a line of the user's code, and the call: a collective, a data loader, a lock.
Pure.
"""

from itertools import product

from flota.hangs.stack_dump import INSTALLED, LOCK, MAIN, PIPE, RUNNING, SLEEP, SOCKET, STOPPED, Frame, Sample, Stack
from flota.job.report import NO_STEP
from flota.job.roles import TRAINER, label
from flota.values import NamedTuple

# A rank is in a collective, waits on a socket, is elsewhere, is stopped by a signal, or has exited.
KINDS = COLLECTIVE, WAITS, ELSEWHERE, HALTED, ENDED = "collective", "waits", "elsewhere", "halted", "ended"
LOADER, CHILD = "in next(loader)", "waiting for a child process"
# Paths of code in which ranks wait for each other, and of code that computes and also waits for other ranks.
COLLECTIVE_PATHS = (
    "torch/distributed/", "torch/nn/parallel/distributed.py", "torch/cuda/", "paddle/distributed/",
    "jax/experimental/multihost_utils.py", "deepspeed/comm/", "horovod/",
)  # fmt: skip
COMPUTE_PATHS = ("torch/autograd/", "paddle/base/dygraph/", "jax/_src/", "tensorflow/python/")
# What a thread does: the first row that matches a frame below the user's own code.
ROWS = (
    # Data loaders first, because they call other parts of a framework.
    (("torch/utils/data/", "paddle/io/", "tensorflow/python/data/"), ELSEWHERE, LOADER),
    (("torch/multiprocessing/spawn.py", "paddle/distributed/spawn.py"), ELSEWHERE, CHILD),
    ((*COLLECTIVE_PATHS, *COMPUTE_PATHS), COLLECTIVE, ""),  # described by the function that the user's code has called
    (("multiprocessing/queues.py",), ELSEWHERE, "in Queue.get"),
    (("multiprocessing/popen", "subprocess.py"), ELSEWHERE, CHILD),
    (("queue.py",), ELSEWHERE, "in Queue.get"),
    (("threading.py",), ELSEWHERE, "waiting for a lock"),
)
INLINE = "<string>"  # the file of multiprocessing's helper processes
GENERIC_NAMES = ("wrapper", "inner", "decorate_context", "wrapped", "_fn")  # of functions, that say nothing
# In a line of the user's code: calls that wait for other ranks, or for a device that does.
COLLECTIVE_WORDS = (
    "all_reduce", "allreduce", "all_gather", "allgather", "all_to_all", "alltoall", "reduce_scatter", "broadcast",
    "bcast", "barrier", ".wait(",
)  # fmt: skip
DEVICE_WORDS = (".item()", ".synchronize(", ".block_until_ready(", ".cpu()")
LOCK_WORDS = ("acquire", "with ", "wait", ".get(", ".join(")  # calls that wait for a lock of Python
JOINS = ("join", "_wait_for_tstate_lock", "_shutdown")
CALLS = {
    SLEEP: "asleep in",
    LOCK: "waiting for a lock in",
    SOCKET: "waiting on a socket in",
    PIPE: "blocked on a pipe in",
    RUNNING: "busy in",
}


class RankPosition(NamedTuple):
    """What one rank is waiting on, or that it has exited. `kind` is empty until that is known."""

    rank: int
    kind: str
    words: str
    role: str = TRAINER
    host: str = ""  # set in a job of several nodes
    worker: int = 0  # its number on the node, and within its role on the node
    local_rank: int = 0
    pid: int = 0
    log: str = ""
    ran: float = 0.0  # seconds
    step: int = NO_STEP  # the last one that it has reported

    @property
    def label(self) -> str:
        return label(self.role, self.rank)


def relevant_thread(sample: Sample) -> Stack | None:
    """The thread that shows what the process does: the main thread, unless it waits for another thread to end, for a
    result of another thread that is not idle, or for the GIL, which another thread holds."""
    main = sample.main
    holder = next((stack for stack in sample.stacks if stack.has_gil and stack.thread != MAIN and stack.own), None)
    if holder and sample.call == LOCK:
        return holder
    if main and main.frames and main.frames[0].file.endswith("threading.py") and not is_in_collective(main):
        others = [stack for stack in sample.stacks if stack is not main and stack.own]
        awake = (stack for stack in others if not is_idle(stack, sample.call_of(stack)))
        # Whether it waits for the end of a thread, or for a future.
        joins = any(frame.function.endswith(JOINS) or "concurrent/futures/" in frame.file for frame in main.frames)
        return next(awake, others[0] if others and joins else main)
    return main or next(iter(sample.stacks), None)


def position_of(sample: Sample) -> tuple[str, str]:
    """One of KINDS, and a description."""
    stack = relevant_thread(sample)
    if sample.state == STOPPED:
        words = f", {_describe(stack, sample)[1]}" if sample.stacks else ""
        return HALTED, f"stopped by a signal{words}"
    child = next(filter(_runs_user_code, sample.children), None) if stack and _known_wait(stack)[1] == CHILD else None
    return position_of(child) if child else _describe(stack, sample)


def _runs_user_code(child: Sample) -> bool:
    """Whether it runs a file of the user, and is not a wrapper around another process."""
    stack = relevant_thread(child)
    return bool(stack and stack.own and stack.own.file != INLINE and _known_wait(stack)[1] != CHILD)


def _describe(stack: Stack | None, sample: Sample) -> tuple[str, str]:
    if stack is None or not stack.frames:
        words = CALLS.get(sample.call, "").removesuffix(" in") or "no stack available"
        return (WAITS if sample.call == SOCKET else ELSEWHERE), words
    own, call = stack.own, sample.call_of(stack)
    frame = own or stack.frames[0]
    kind, what = _known_wait(stack)
    if kind:
        return kind, f"{what} at {frame.place}"
    if _line_contains(frame, (*COLLECTIVE_WORDS, *DEVICE_WORDS)):
        return COLLECTIVE, f"in `{frame.text}` at {frame.place}"
    doing = CALLS.get(call, "in")
    if stack.has_gil and (stack.thread != MAIN or call not in (RUNNING, "")):
        doing = "holding the GIL in"
    return (WAITS if call == SOCKET else ELSEWHERE), f"{doing} {frame.function} at {frame.place}"


def _known_wait(stack: Stack) -> tuple[str, str]:
    """Kind and description by the library frames that the user's code has called; empty if none is known."""
    inner = _inside(stack)
    for parts, kind, word in ROWS:
        for part, frame in product(parts, inner):
            if part in frame.file:
                library = part.partition("/")[0]
                return kind, word or f"in {_outermost_call([one for one in inner if library in one.file])}"
    return "", ""


def _inside(stack: Stack) -> tuple[Frame, ...]:
    """The frames that the innermost frame of the user's code has called."""
    own = stack.own
    return stack.frames[: stack.frames.index(own)] if own else stack.frames


def _line_contains(frame: Frame, words: tuple[str, ...]) -> bool:
    return any(word in frame.text.lower() for word in words)


def is_idle(stack: Stack, call: str) -> bool:
    return call == SLEEP or (call == LOCK and waits_for_python(stack))


def waits_for_python(stack: Stack) -> bool:
    """Whether it waits for a lock, thread or process in Python code, and not in native code."""
    own = stack.own
    if own is not None and own is stack.frames[0]:
        return _line_contains(own, LOCK_WORDS)
    return _known_wait(stack)[0] == ELSEWHERE and not any(part in stack.frames[0].file for part in INSTALLED)


def is_in_collective(stack: Stack) -> bool:
    """Whether it is in code that only waits for other ranks. COMPUTE_PATHS are not: they compute as well."""
    own = stack.own
    return any(part in frame.file for frame in _inside(stack) for part in COLLECTIVE_PATHS) or (
        own is not None and _line_contains(own, COLLECTIVE_WORDS) and not _known_wait(stack)[0]
    )


def _outermost_call(frames: list[Frame]) -> str:
    """The outermost function with a specific name: what the user's code has called."""
    names = [frame.function.rpartition(".")[2] for frame in frames]
    specific = [name for name in names if not name.startswith("_") and name not in GENERIC_NAMES]
    return (specific or names)[-1]
