"""Why a worker ended, as a table: what is known of its end, and what is said of it."""

from __future__ import annotations

import pytest

from flota.failures import diagnosis
from flota.failures.diagnosis import Evidence, diagnosed, exception_name, is_secondary
from flota.failures.last_output import last_output
from flota.job import causes
from flota.job.report import FailedWorker

STACK = ["Traceback (most recent call last):", '  File "train.py", line 88, in <module>', "    step()"]
GLOO = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:40213"
NCCL = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2264, ncclRemoteError: remote process exited"


def nccl(kind: str, name: str, last: str) -> list[str]:
    """As torch prints it."""
    first = f"torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, {kind}, NCCL version 2.21.5"
    return [first, f"{name}: A call failed.", "Last error:", last]


# fmt: off
NCCL_USAGE = nccl("invalid usage", "ncclInvalidUsage", "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 50000")
NCCL_MEMORY = nccl("unhandled cuda error", "ncclUnhandledCudaError", "Cuda failure 2 'out of memory'")
NCCL_DEVICE = nccl("unhandled cuda error", "ncclUnhandledCudaError", "Cuda failure 'invalid argument'")
NCCL_SHARED_MEMORY = nccl("unhandled system error", "ncclSystemError", "Error while creating shared memory segment /dev/shm/nccl-sbfOb8 (size 9637888)")
NCCL_SYSTEM = nccl("unhandled system error", "ncclSystemError", "socketStartConnect: Connect to 10.0.0.1<43219> failed : No route to host")
NCCL_INTERNAL = nccl("internal error", "ncclInternalError", "Net : Connection closed by remote peer gpu01<50260>")
NCCL_BUG = nccl("internal error", "ncclInternalError", "Attribute busid of node nic not found")
NCCL_STORE = "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms"
# fmt: on


PADDLE_MEMORY = [
    "SystemError: ",
    "",
    "--------------------------------------",
    "C++ Traceback (most recent call last):",
    "--------------------------------------",
    "0   paddle::memory::Alloc()",
    "----------------------",
    "Error Message Summary:",
    "----------------------",
    "ResourceExhaustedError: ",
    "",
    "Out of memory error on GPU 0. Cannot allocate 2.0GB memory on GPU 0.",
]
BLOCK = [
    "--------------------------------------",
    "C++ Traceback (most recent call last):",
    "--------------------------------------",
    "[TimeInfo: *** Aborted at 1635916135 (unix time) ***]",
    "[SignalInfo: *** SIGTERM (@0x3fe) received by PID 1164 (TID 0x7f6cf1fc6700) from PID 1022 ***]",
]
ARGPARSE = ["usage: train.py [-h] [--local_rank LOCAL_RANK]", "train.py: error: unrecognized arguments: --local-rank=1"]

SPECIFICATION = "/usr/bin/python: Error while finding module specification for '{}' (ModuleNotFoundError: {})"
TRY_NAME = ". Try using 'a' instead of 'a.py' as the module name."
CLICK = ["Usage: train.py [OPTIONS]", "Try 'train.py --help' for help.", "", "Error: No such option: --lrr"]
UNKNOWN = ["usage: train.py [-h]", "train.py: error: unrecognized arguments: --nproc_per_node 2 --grace=3 --node-rank"]
TYPER = [*CLICK[:2], "╭─ Error ─────────────────────────╮", "│ No such option: --lrr           │", "╰─────────────────────────────────╯"]  # fmt: skip


def evidence(code: int, *lines: str, **more) -> Evidence:
    """As it is found in a log that ends like this."""
    return last_output([list(lines)], Evidence(code, **more))


def raised(line: str, *more: str) -> Evidence:
    return evidence(1, "step 3", *STACK, line, *more)


@pytest.mark.parametrize(
    ("found", "cause", "words"),
    [
        (evidence(-9, memory="the kernel's log names it"), causes.OUT_OF_MEMORY, "killed by the OOM killer: the kernel's log"),
        (evidence(-9, counted=True), causes.KILLED, "killed by another process"),
        (evidence(-9), causes.KILLED, "killed by another process or the OOM killer"),
        (evidence(137, counted=True), causes.KILLED, "killed by another process"),
        (evidence(-15), causes.TERMINATED, "terminated by another process"),
        (evidence(143), causes.TERMINATED, "terminated by another process"),
        (evidence(-11, "Fatal Python error: Segmentation fault"), causes.SEGMENTATION_FAULT, "segmentation fault"),
        (evidence(139), causes.SEGMENTATION_FAULT, "segmentation fault"),
        (evidence(-6, "Fatal Python error: Aborted"), causes.ABORTED, ""),
        (evidence(-6, "terminate called", "  what():  CUDA out of memory"), causes.DEVICE_OUT_OF_MEMORY, "out of memory"),
        (evidence(-6, "[PG ID 0] Watchdog caught collective operation timeout"), causes.LOST_CONNECTION, "lost the connection"),
        (evidence(-7), causes.SIGNALLED, "bus error"),
        (evidence(-10), causes.SIGNALLED, ""),
        (raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"), causes.DEVICE_OUT_OF_MEMORY, ""),
        (raised("torch.OutOfMemoryError: HIP out of memory."), causes.DEVICE_OUT_OF_MEMORY, ""),
        (raised("RuntimeError: NPU out of memory. Tried to allocate"), causes.DEVICE_OUT_OF_MEMORY, ""),
        (raised("torch.OutOfMemoryError: XPU out of memory."), causes.DEVICE_OUT_OF_MEMORY, ""),
        (raised("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while"), causes.DEVICE_OUT_OF_MEMORY, ""),
        (raised(*PADDLE_MEMORY), causes.DEVICE_OUT_OF_MEMORY, "out of memory on the device"),
        (raised("MemoryError"), causes.OUT_OF_MEMORY, "out of memory"),
        (raised("OSError: [Errno 12] Cannot allocate memory"), causes.OUT_OF_MEMORY, "out of memory"),
        (raised("OSError: [Errno 28] No space left on device: 'model.pt'"), causes.DISK_FULL, "the disk is full"),
        (raised("OSError: [Errno 122] Disk quota exceeded"), causes.DISK_FULL, "the disk is full"),
        (raised("RuntimeError: DataLoader worker is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory."), causes.SHARED_MEMORY_FULL, "shared memory"),
        (raised("OSError: [Errno 24] Too many open files"), causes.TOO_MANY_FILES, "too many open files"),
        (raised("ModuleNotFoundError: No module named 'apex'"), causes.MISSING_MODULE, "no module named 'apex'"),
        (evidence(1, "/usr/bin/python: No module named trainer"), causes.MISSING_MODULE, "no module named trainer"),
        (evidence(1, SPECIFICATION.format("pkg.none", "No module named 'pkg'")), causes.MISSING_MODULE, "(no module named 'pkg.none')"),
        (evidence(1, SPECIFICATION.format("a.py", "__path__ attribute not found on 'a'") + TRY_NAME), causes.MISSING_MODULE, "(no module named 'a.py')"),
        (raised("ImportError: cannot import name 'f' from 'm'"), causes.FAILED_IMPORT, "failed import: cannot import"),
        (raised("OSError: libcudart.so.12: cannot open shared object file: No such file"), causes.FAILED_IMPORT, "failed import"),
        (raised("OSError: [Errno 98] Address already in use"), causes.PORT_IN_USE, "the port is already in use"),
        (raised("torch.distributed.DistNetworkError: EADDRINUSE, port: 29500"), causes.PORT_IN_USE, "already in use"),
        (evidence(2, *ARGPARSE), causes.LOCAL_RANK, "does not accept --local-rank"),
        (evidence(2, "usage: train.py [-h] --data DATA", "train.py: error: --data is required"), causes.USAGE, "--data is"),
        (evidence(2, *CLICK), causes.USAGE, "No such option: --lrr"),
        (evidence(2, *TYPER), causes.USAGE, "No such option: --lrr"),
        (evidence(2, "ERROR: Could not consume arg: --lrr", "Usage: train.py <flags>"), causes.USAGE, "Could not consume"),
        (evidence(1, "FATAL Flags parsing error:", "  Unknown command line flag 'lrr'.", "Pass --help"), causes.USAGE, "Unknown"),
        (evidence(2, "Usage: 3 GiB", "bye"), causes.EXITED, ""),
        (evidence(2, "python: can't open file '/job/no.py': [Errno 2] No such file"), causes.BAD_PATH, "can't open '/job"),
        (evidence(1, '  File "train.py", line 3', "    def f(:", "          ^", "SyntaxError: invalid syntax"), causes.SYNTAX_ERROR, "SyntaxError: inv"),
        (raised("SyntaxError: invalid syntax"), causes.SYNTAX_ERROR, "SyntaxError: invalid syntax"),
        (raised("RuntimeError: CUDA error: device-side assert triggered"), causes.DEVICE_FAILED, "device error"),
        (raised(GLOO), causes.LOST_CONNECTION, "lost the connection"),
        (raised(NCCL), causes.LOST_CONNECTION, "lost the connection"),
        (raised(*NCCL_SYSTEM), causes.LOST_CONNECTION, "lost the connection"),
        (raised(*NCCL_USAGE), causes.EXCEPTION, "torch.distributed.DistBackendError"),
        (raised(*NCCL_MEMORY), causes.DEVICE_OUT_OF_MEMORY, "out of memory on the device"),
        (raised(*NCCL_DEVICE), causes.DEVICE_FAILED, "device error"),
        (raised(*NCCL_SHARED_MEMORY), causes.SHARED_MEMORY_FULL, "shared memory"),
        (evidence(-6, "terminate called after throwing an instance of 'c10::DistBackendError'", "  what():  CUDA error: out of range"), causes.DEVICE_FAILED, ""),
        (raised("ValueError: bad shard"), causes.EXCEPTION, "ValueError"),
        (raised("my.own.Trouble"), causes.EXCEPTION, "my.own.Trouble"),
        (raised("main.<locals>.Trouble: bad"), causes.EXCEPTION, "main.<locals>.Trouble"),
        (raised("ValueError: the coordination service must be a string"), causes.EXCEPTION, "ValueError"),
        (raised("KeyError: 'label'", "INFO cache: no space left on device, skipped"), causes.EXCEPTION, "KeyError"),
        (raised("RuntimeError: the step failed:", "\tCUDA out of memory"), causes.DEVICE_OUT_OF_MEMORY, "out of memory"),
        (evidence(3, *STACK, "ZeroDivisionError: x"), causes.EXCEPTION, "ZeroDivisionError"),
        (evidence(3, *STACK, "ZeroDivisionError: x", "[rank1]:[W ProcessGroup.cpp] not destroyed"), causes.EXCEPTION, "Zero"),
        (evidence(3, *STACK, "ZeroDivisionError: x", "falling back"), causes.EXITED, ""),
        (evidence(3, *STACK, "OSError: [Errno 28] No space left on device", "no cache then", "nan"), causes.EXITED, ""),
        (evidence(-15, *STACK, "ZeroDivisionError: x", "step 7", asked_to_stop=True), causes.SIGNALLED, ""),
        (evidence(-15, *STACK, "ZeroDivisionError: x", asked_to_stop=True), causes.EXCEPTION, "ZeroDivisionError"),
        (evidence(-15, *STACK, "ZeroDivisionError: x", *BLOCK, asked_to_stop=True), causes.EXCEPTION, "ZeroDivisionError"),
        (evidence(3, "bye"), causes.EXITED, ""),
        (evidence(2, "bye"), causes.EXITED, ""),
        (evidence(1), causes.EXITED, ""),
    ],
)  # fmt: skip
def test_each_end_has_its_cause(found, cause, words):
    failed = diagnosed(FailedWorker(code=found.code), found)

    assert (failed.cause, words in failed.ending) == (cause, True), failed
    assert cause in causes.ALL


@pytest.mark.parametrize(
    ("found", "hint"),
    [
        (evidence(2, *UNKNOWN, misplaced=("--nproc_per_node",)), "flota has a flag --nproc_per_node: write"),
        (evidence(2, *UNKNOWN, misplaced=("--nproc_per_node", "--grace")), "flota has flags --nproc_per_node, --grace:"),
        (evidence(2, *UNKNOWN, misplaced=("--rank", "--node")), "the script rejected its arguments"),
        (evidence(2, *CLICK[:-1], "Error: No such option: --console", misplaced=("--console",)), "flota has a flag --console"),
        (evidence(1, "FATAL Flags parsing error:", "  Unknown command line flag 'tee'.", misplaced=("--tee",)), "flota has a flag --tee"),
        (evidence(1, *STACK, "ValueError: not used by the HfArgumentParser: ['--tee', '3']", misplaced=("--tee",)), "flota has a flag --tee"),
        (evidence(1, *STACK, "ValueError: no backend", misplaced=("--backend",)), ""),
        (raised("bdb.BdbQuit"), "run a single worker with --interactive"),
        (raised("EOFError: EOF when reading a line"), "run a single worker with --interactive"),
        (raised("EOFError: Ran out of input"), ""),
        (raised("ValueError: coordinator_address should be defined."), "run flota --framework jax"),
        (raised("ValueError: Number of processes must be defined."), "call flota.init_parallel_env() instead"),
        (raised("ValueError: coordinator_address"), ""),
        (raised("SyntaxError: invalid syntax"), "fix the line; if the workers' Python is too old for it"),
        (evidence(1, SPECIFICATION.format("a.py", "__path__") + TRY_NAME), "leave out --module to run a file"),
        (evidence(1, SPECIFICATION.format("pkg.none", "x")), "install it"),
    ],
)  # fmt: skip
def test_a_hint_is_as_specific_as_the_output_allows(found, hint):
    given = diagnosed(FailedWorker(code=found.code), found).hint

    assert hint in given and bool(hint) is bool(given)


@pytest.mark.parametrize(
    ("found", "secondary"),
    [
        (raised(GLOO), True),
        (raised(NCCL), True),
        (raised(NCCL_STORE), True),
        (raised(*NCCL_SYSTEM), True),
        (raised(*NCCL_INTERNAL), True),
        (evidence(1, *(f"[rank1]: {line}" for line in (*STACK, *NCCL_INTERNAL))), True),
        (raised(*NCCL_BUG), False),
        (raised(*NCCL_USAGE), False),
        (raised(*NCCL_MEMORY), False),
        (raised(*NCCL_DEVICE), False),
        (raised(*NCCL_SHARED_MEMORY), False),
        (evidence(1, *(f"[rank1]: {line}" for line in (*STACK, *NCCL_MEMORY))), False),
        (evidence(-6, "terminate called after throwing an instance of 'c10::DistBackendError'"), False),
        (raised("ConnectionResetError: [Errno 104] Connection reset by peer"), True),
        (raised("jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: The coordination service"), True),
        (evidence(-6, "Terminating process because the JAX distributed service detected fatal errors."), True),
        (evidence(-15, *BLOCK), True),
        (evidence(1, *BLOCK), True),
        (evidence(-15), False),
        (evidence(-9, "Connection reset by peer"), False),
        (evidence(-11, "Connection reset by peer"), False),
        (raised("torch.distributed.DistNetworkError: EADDRINUSE, port: 29500"), False),
        (raised("ValueError: bad shard"), False),
        (raised("ValueError: bad shard", "[W TCPStore.cpp:123] recvValue failed: Connection reset by peer"), False),
        (raised("ValueError: (InvalidArgument) TCP connection reset by peer."), True),
        (raised("ValueError: bad endpoint: connection refused is not a policy"), False),
        (raised("ValueError: the coordination service must be a string"), False),
        (evidence(3, *STACK, "ConnectionRefusedError: [Errno 111] Connection refused", "no metrics then", "nan"), False),
        (evidence(3, "Connection reset by peer"), True),
        (evidence(3, "Connection reset by peer, trying again", "loss is nan"), False),
        (evidence(1, STACK[0], '  File "/usr/lib/python3.11/http/client.py", line 9, in f', "ConnectionResetError: x"), False),
        (evidence(3, "bye"), False),
    ],
)  # fmt: skip
def test_a_secondary_failure_is_known_by_its_output(found, secondary):
    assert is_secondary(found) is secondary


def test_what_was_raised_first_tells_whether_another_is_to_blame():
    culprit = [
        *STACK,
        "ValueError: bad shard",
        "",
        "During handling of the above exception, another exception occurred:",
    ]
    victim = [*STACK, "ConnectionResetError: [Errno 104] Connection reset by peer", "", "The above exception was the direct cause of the following exception:"]  # fmt: skip

    assert not is_secondary(evidence(1, *culprit, "", *STACK, GLOO))
    assert is_secondary(evidence(1, *victim, "", *STACK, "RuntimeError: the step failed"))


def test_an_exception_that_was_caught_long_before_explains_nothing():
    caught = [*STACK, "ConnectionResetError: [Errno 104] Connection reset by peer"]
    later = evidence(1, *caught, *(f"step {number}" for number in range(50)))

    assert (diagnosed(FailedWorker(code=1), later).cause, is_secondary(later)) == (causes.EXITED, False)
    assert is_secondary(evidence(1, *caught, "bye"))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("ValueError: x", "ValueError"),
        ("torch.OutOfMemoryError: CUDA out", "torch.OutOfMemoryError"),
        ("StopIteration", "StopIteration"),
        ("kind.<locals>.MyErr", "kind.<locals>.MyErr"),
        ("", ""),
        ("two words: x", ""),
        ("3: x", ""),
    ],
)
def test_names_of_exceptions(line, name):
    assert exception_name(line) == name


def test_every_cause_that_has_words_or_a_hint_is_a_cause():
    assert {cause for cause, _, _ in diagnosis.CAUSES_BY_TEXT} <= set(causes.ALL)
    assert all(hint[0].islower() and not hint.endswith(".") for hint in causes.HINTS.values() if hint)
