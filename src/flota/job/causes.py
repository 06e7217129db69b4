"""The names of causes of failures, and what follows from a name alone. Pure."""

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
ALL = tuple(
    sorted(
        {
            *(EXITED, SIGNALLED, NOT_STARTED, SHEPHERD_LOST, HUNG, LEFT_EARLY, OUT_OF_MEMORY, DEVICE_OUT_OF_MEMORY),
            *(SHARED_MEMORY_FULL, DISK_FULL, TOO_MANY_FILES, SEGMENTATION_FAULT, ABORTED, KILLED, TERMINATED),
            *(MISSING_MODULE, FAILED_IMPORT, BAD_PATH, SYNTAX_ERROR, USAGE, LOCAL_RANK, PORT_IN_USE, DEVICE_FAILED),
            *(EXCEPTION, LOST_CONNECTION),
        }
    )
)

SIGABRT, SIGBUS, SIGKILL, SIGSEGV, SIGTERM = 6, 7, 9, 11, 15


def signal_of(code: int) -> int:
    """The signal that ended it, also where a shell between it and us has made 128 + N of it; 0 for none."""
    if code < 0:
        return -code
    return code - 128 if code - 128 in (SIGABRT, SIGBUS, SIGKILL, SIGSEGV, SIGTERM) else 0


def is_hang(code: int, cause: str) -> bool:
    """A worker's own exit code may be the same, but has another cause."""
    return code == HANG and cause in (HUNG, LEFT_EARLY)
