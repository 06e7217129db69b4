"""The causes of failures: their names and hints. Pure."""

from __future__ import annotations

from flota.errors import HANG

# Known from the exit status; failures/diagnosis.py finds more specific causes in the worker's output.
EXITED, SIGNALLED, NOT_STARTED, SHEPHERD_LOST = "exited", "signalled", "not-started", "shepherd-lost"
# A worker that the others wait for: it is stuck, or it exited with 0.
HUNG, LEFT_EARLY = "hung", "left-early"
OUT_OF_MEMORY, DEVICE_OUT_OF_MEMORY = "out-of-memory", "device-out-of-memory"
SHARED_MEMORY_FULL, DISK_FULL, TOO_MANY_FILES = "shared-memory-full", "disk-full", "too-many-files"
SEGMENTATION_FAULT, ABORTED, KILLED, TERMINATED = "segmentation-fault", "aborted", "killed", "terminated"
MISSING_MODULE, FAILED_IMPORT, BAD_PATH, SYNTAX_ERROR = "missing-module", "failed-import", "bad-path", "syntax-error"
USAGE, LOCAL_RANK, PORT_IN_USE, DEVICE_FAILED = "usage", "local-rank-argument", "port-in-use", "device-error"
EXCEPTION, LOST_CONNECTION = "exception", "lost-connection"
# These would recur: a restart is useless unless the job has worked before.
AT_START = (NOT_STARTED, MISSING_MODULE, FAILED_IMPORT, BAD_PATH, SYNTAX_ERROR, USAGE, LOCAL_RANK)
FROM_OUTSIDE = (KILLED, TERMINATED, LOST_CONNECTION, SHEPHERD_LOST)
# All causes with their hints; empty if there is none.
HINTS = {
    EXITED: "",
    SIGNALLED: "",
    NOT_STARTED: "run `flota --dry-run …` to see the command",
    SHEPHERD_LOST: "",
    HUNG: "",
    LEFT_EARLY: "all ranks must run the same number of steps: check how the data is split",
    OUT_OF_MEMORY: "request more memory, or use less: smaller batches, fewer data loader workers or workers per node",
    DEVICE_OUT_OF_MEMORY: "use smaller batches; check with the driver's tool whether another process uses the memory",
    SHARED_MEMORY_FULL: "enlarge /dev/shm, e.g. with `docker run --shm-size 8g`, or use fewer data loader workers",
    DISK_FULL: "run `df -h` on that machine to see which disk is full",
    TOO_MANY_FILES: "run `ulimit -n 65536` before flota",
    SEGMENTATION_FAULT: "the fault is in native code; the Python line that called it is above, if known",
    ABORTED: "",
    KILLED: "a user, a scheduler or a container runtime sent SIGKILL",
    TERMINATED: "another process sent SIGTERM to the worker itself; to stop the job, send it to flota",
    MISSING_MODULE: "install it for the workers' interpreter, or choose another interpreter with --python PATH",
    FAILED_IMPORT: "the package is installed but does not load: check its version and the libraries it needs",
    BAD_PATH: "every node needs the script at the same path: run `ls` on that machine",
    SYNTAX_ERROR: "fix the line; if the workers' Python is too old for it, choose another with --python PATH",
    USAGE: "the script rejected its arguments; flota's flags go before the script",
    LOCAL_RANK: "accept both `--local-rank` and `--local_rank` in the script, or read LOCAL_RANK from the environment "
    "and add --use-env",
    PORT_IN_USE: "use the ports given to workers (MASTER_PORT, FLOTA_ENDPOINT); run `ss -ltnp` to see which process "
    "uses the port",
    DEVICE_FAILED: "",
    EXCEPTION: "",
    LOST_CONNECTION: "check the network, and what the other ranks were doing",
}
ALL = tuple(sorted(HINTS))

SIGABRT, SIGBUS, SIGKILL, SIGSEGV, SIGTERM = 6, 7, 9, 11, 15


def signal_of(code: int) -> int:
    """Return the signal that killed a process, also if a shell turned it into 128 + N; 0 for none."""
    if code < 0:
        return -code
    return code - 128 if code - 128 in (SIGABRT, SIGBUS, SIGKILL, SIGSEGV, SIGTERM) else 0


def is_hang(code: int, cause: str) -> bool:
    """Whether a failure is a hang. A worker may exit with the same code for another cause."""
    return code == HANG and cause in (HUNG, LEFT_EARLY)
