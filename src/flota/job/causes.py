"""The causes of failures: their names, and what follows from a name alone. Pure."""

from __future__ import annotations

from flota.errors import HANG

# What the shepherd can tell of an end; failures/diagnosis.py finds more in what the worker said.
EXITED, SIGNALLED, NOT_STARTED, SHEPHERD_LOST = "exited", "signalled", "not-started", "shepherd-lost"
# What is known of a worker for which the others wait: it stands, or has ended with 0.
HUNG, LEFT_EARLY = "hung", "left-early"
OUT_OF_MEMORY, DEVICE_OUT_OF_MEMORY = "out-of-memory", "device-out-of-memory"
SHARED_MEMORY_FULL, DISK_FULL, TOO_MANY_FILES = "shared-memory-full", "disk-full", "too-many-files"
SEGMENTATION_FAULT, ABORTED, KILLED, TERMINATED = "segmentation-fault", "aborted", "killed", "terminated"
MISSING_MODULE, FAILED_IMPORT, BAD_PATH, SYNTAX_ERROR = "missing-module", "failed-import", "bad-path", "syntax-error"
USAGE, LOCAL_RANK, PORT_IN_USE, DEVICE_FAILED = "usage", "local-rank-argument", "port-in-use", "device-error"
EXCEPTION, LOST_CONNECTION = "exception", "lost-connection"
# Will be the same the next time: unless it has worked before, it is no use to start it again.
AT_START = (NOT_STARTED, MISSING_MODULE, FAILED_IMPORT, BAD_PATH, SYNTAX_ERROR, USAGE, LOCAL_RANK)
FROM_OUTSIDE = (KILLED, TERMINATED, LOST_CONNECTION, SHEPHERD_LOST)
# All causes, and what to do about each; empty where there is nothing to say.
HINTS = {
    EXITED: "",
    SIGNALLED: "",
    NOT_STARTED: "run `flota --dry-run …` to see the command",
    SHEPHERD_LOST: "",
    HUNG: "",
    LEFT_EARLY: "all ranks have to do the same number of steps: look at how the data is shared out",
    OUT_OF_MEMORY: "ask for more memory, or use less: smaller batches, fewer data loader workers, fewer workers a node",
    DEVICE_OUT_OF_MEMORY: "use smaller batches, or look with the driver's own tool whether another process has memory",
    SHARED_MEMORY_FULL: "give /dev/shm more room, as with `docker run --shm-size 8g`, or use fewer data loader workers",
    DISK_FULL: "run `df -h` there to see which disk is full",
    TOO_MANY_FILES: "run `ulimit -n 65536` before flota",
    SEGMENTATION_FAULT: "the fault is in native code; the Python line that called it is above, if any",
    ABORTED: "",
    KILLED: "somebody sent SIGKILL: a person, a scheduler, or a container's limit",
    TERMINATED: "somebody sent SIGTERM to the worker itself: a scheduler signals flota, and flota the workers",
    MISSING_MODULE: "install it for the workers' interpreter, or name another one with --python PATH",
    FAILED_IMPORT: "the package is there but does not load: its version, or a library that it needs",
    BAD_PATH: "run `ls` on that machine: every node needs the script under the same path",
    SYNTAX_ERROR: "the workers' interpreter cannot read the script: --python PATH names another one",
    USAGE: "the script refuses its arguments; flags of flota go before the script",
    LOCAL_RANK: "let the script take both `--local-rank` and `--local_rank`, or read LOCAL_RANK from the environment "
    "and add --use-env",
    PORT_IN_USE: "use the ports that workers are given (MASTER_PORT, FLOTA_ENDPOINT); run `ss -ltnp` to see who has it",
    DEVICE_FAILED: "",
    EXCEPTION: "",
    LOST_CONNECTION: "look at the network, and at what the other ranks were doing",
}
ALL = tuple(sorted(HINTS))

SIGABRT, SIGBUS, SIGKILL, SIGSEGV, SIGTERM = 6, 7, 9, 11, 15


def signal_of(code: int) -> int:
    """The signal that ended it, also where a shell between it and us has made 128 + N of it; 0 for none."""
    if code < 0:
        return -code
    return code - 128 if code - 128 in (SIGABRT, SIGBUS, SIGKILL, SIGSEGV, SIGTERM) else 0


def is_hang(code: int, cause: str) -> bool:
    """A worker's own exit code may be the same, but has another cause."""
    return code == HANG and cause in (HUNG, LEFT_EARLY)
