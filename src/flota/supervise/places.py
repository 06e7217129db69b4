"""Where a rank stands, in a few words: the user's own line, and what it is there for."""

from __future__ import annotations

from itertools import product

from flota.job.report import NO_STEP
from flota.job.roles import TRAINER, label
from flota.supervise.stacks import LOCK, MAIN, PIPE, RUNNING, SLEEP, SOCKET, STOPPED, Frame, Sample, Stack
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# How it stands: in a collective, at a socket, elsewhere, stopped by a signal, or not at all, because it has ended.
KINDS = COLLECTIVE, WAITS, ELSEWHERE, HALTED, ENDED = "collective", "waits", "elsewhere", "halted", "ended"
LOADER = "next(loader)"
# Parts of paths, and what a thread is there for: the first row that fits a frame, from the innermost outwards.
FRAMEWORKS = (
    ("torch/utils/data/", ELSEWHERE, LOADER),
    ("paddle/io/", ELSEWHERE, LOADER),
    ("tensorflow/python/data/", ELSEWHERE, LOADER),
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
# What Python's own library is there for, where no framework has called it.
LIBRARY = (
    ("multiprocessing/queues.py", ELSEWHERE, "Queue.get"),
    ("multiprocessing/popen", ELSEWHERE, "the end of a child process"),
    ("subprocess.py", ELSEWHERE, "the end of a child process"),
    ("queue.py", ELSEWHERE, "Queue.get"),
    ("threading.py", ELSEWHERE, "a lock"),
)
UNKNOWN = "no stack to be had"
PLAIN = ("wrapper", "inner", "decorate_context", "wrapped", "_fn")  # names that say nothing
# In a line of the user's own: calls that wait for other ranks, or for a device that does.
COLLECTIVE_WORDS = (
    "all_reduce", "allreduce", "all_gather", "allgather", "all_to_all", "alltoall", "reduce_scatter", "broadcast",
    "bcast", "barrier", ".item()", ".synchronize(", ".block_until_ready(", ".cpu()", ".wait(",
)  # fmt: skip
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


class Post(NamedTuple):
    """One rank as it stands, or as it ended; on a host of many, where one is named."""

    rank: int
    kind: str
    words: str
    role: str = TRAINER
    host: str = ""
    worker: int = 0  # its number on its node
    pid: int = 0
    log: str = ""
    ran: float = 0.0  # seconds, so far
    step: int = NO_STEP  # the last that it told

    @property
    def label(self) -> str:
        return label(self.role, self.rank)


def leading(sample: Sample) -> Stack | None:
    """The thread that matters: the main one, unless that waits for another to end, or for the GIL that another has and
    does not give back."""
    main = sample.main
    holder = next((stack for stack in sample.stacks if stack.has_gil and stack.thread != MAIN and stack.own), None)
    if holder and sample.call == LOCK:
        return holder
    if main and main.frames and main.frames[0].file.endswith("threading.py"):
        others = (stack for stack in sample.stacks if stack is not main and stack.own)
        return next(others, main)
    return main or next(iter(sample.stacks), None)


def post_of(rank: int, sample: Sample, role: str = TRAINER) -> Post:
    stack = leading(sample)
    kind, words = _place(stack, sample)
    if sample.state == STOPPED:
        return Post(rank, HALTED, f"stopped by a signal{f', {words}' if sample.stacks else ''}", role, pid=sample.pid)
    return Post(rank, kind, words, role, pid=sample.pid)


def _place(stack: Stack | None, sample: Sample) -> tuple[str, str]:
    if stack is None or not stack.frames:
        return (WAITS if sample.call == SOCKET else ELSEWHERE), CALLS.get(sample.call, "").removesuffix(
            " in"
        ) or UNKNOWN
    own = stack.own
    at = (own or stack.frames[0]).place
    kind, what = _purpose(stack, own)
    if kind:
        return kind, f"in {what} at {at}"
    function = (own or stack.frames[0]).function
    if own and any(word in own.text for word in COLLECTIVE_WORDS):
        return COLLECTIVE, f"in `{own.text}` at {at}"
    doing = CALLS.get(sample.call, "in")
    if stack.has_gil and sample.call not in (RUNNING, ""):
        doing = "holding the GIL in"
    return (WAITS if sample.call == SOCKET else ELSEWHERE), f"{doing} {function} at {at}"


def _purpose(stack: Stack, own: Frame | None) -> tuple[str, str]:
    """What library frames inside of the user's own say; nothing where there are none that we know."""
    inner = stack.frames[: stack.frames.index(own)] if own else stack.frames
    for frame, (part, kind, word) in (*product(inner, FRAMEWORKS), *product(inner, LIBRARY)):
        if part in frame.file:
            return kind, word or _call(frame for frame in inner if part.partition("/")[0] in frame.file)
    return "", ""


def _call(frames: Iterable[Frame]) -> str:
    """The outermost call with a name that tells something: what the user's own code has called."""
    names = [frame.function.rpartition(".")[2] for frame in frames]
    telling = [name for name in names if not name.startswith("_") and name not in PLAIN]
    return (telling or names)[-1]


def compiles(stack: Stack) -> bool:
    return any(part in frame.file or part == frame.function for frame in stack.frames for part in COMPILERS)
