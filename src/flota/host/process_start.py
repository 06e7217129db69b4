"""Starts one process with its standard streams connected, and sets attributes of the current process: subreaper, name,
death signal (on Linux only), limit of open files, spare descriptors."""

from __future__ import annotations

import os
from _collections_abc import Callable
from _signal import SIGPIPE, SIGXFSZ  # type: ignore[import-not-found]

from flota import libc
from flota.errors import TooFewFiles
from flota.values import NamedTuple

APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
SIGKILL = 9
SPARE_FILES = 12  # enough to import a module, to write a report, to ask py-spy
NODES_FILES = SPARE_FILES + 12  # that a node opens when it watches workers, besides their logs
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
original_open_files: list[tuple[int, int]] = []  # the limits before they were raised; empty if they were not


class ProcessSpec(NamedTuple):
    """What to run. `stdout` and `stderr` are a file, a descriptor, or None to share the node's.

    `inherited_fds`: descriptors that the process inherits under the same numbers. `call`: a function that a fork of the
    shepherd runs instead of `argv`; its return value is the exit code.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    stdout: str | int | None
    stderr: str | int | None
    inherited_fds: tuple[int, ...] = ()
    call: Callable[[], int] | None = None


def execute(process: ProcessSpec, *, own_session: bool) -> int:
    """Start the program and return its pid. Raises OSError if it cannot be run."""
    return os.posix_spawn(
        process.argv[0],
        process.argv,
        process.env,
        file_actions=_file_actions(process),
        setsid=own_session,
        # Python ignores these two; without a reset, workers would inherit that.
        setsigdef=(SIGPIPE, SIGXFSZ),
    )


def exit_code(status: int) -> int:
    """`os.waitstatus_to_exitcode`, which Python 3.8 lacks."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def descriptors_of(process: ProcessSpec) -> list[int]:
    return [fd for fd in (process.stdout, process.stderr, *process.inherited_fds) if isinstance(fd, int)]


def _streams(process: ProcessSpec) -> list[tuple[int, str | int, int]]:
    """Return the standard streams to connect: (stream, file or descriptor, flags to open a file)."""
    if process.stdout is None or process.stderr is None:
        return []
    stderr = 1 if process.stderr == process.stdout else process.stderr
    return [(0, "/dev/null", os.O_RDONLY), (1, process.stdout, APPEND), (2, stderr, APPEND)]


def _file_actions(process: ProcessSpec) -> list[tuple[int, int, str, int, int] | tuple[int, int, int]]:
    actions: list[tuple[int, int, str, int, int] | tuple[int, int, int]] = []
    for fd, target, flags in _streams(process):
        if isinstance(target, int):
            actions.append((os.POSIX_SPAWN_DUP2, target, fd))
        else:
            actions.append((os.POSIX_SPAWN_OPEN, fd, target, flags, 0o666))
    # dup2 onto itself clears close-on-exec.
    return actions + [(os.POSIX_SPAWN_DUP2, fd, fd) for fd in process.inherited_fds]


def redirect(process: ProcessSpec) -> None:
    """Connect the standard streams of the current process as `process` specifies."""
    for fd, target, flags in _streams(process):
        source = target if isinstance(target, int) else os.open(target, flags, 0o666)
        os.dup2(source, fd)
        os.set_inheritable(fd, True)  # noqa: FBT003  os.dup2 onto itself does not do this
        if source not in (target, fd):
            os.close(source)


def become_subreaper(*, now: bool = True) -> None:
    """Adopt orphans among our descendants, whatever their session. `now=False` undoes it."""
    libc.call("prctl", PR_SET_CHILD_SUBREAPER, int(now), 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the parent dies; exit now if it is already dead."""
    libc.call("prctl", PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def name_process(name: str) -> None:
    """Set the name that `ps -o comm` shows."""
    libc.call("prctl", PR_SET_NAME, name.encode(), 0, 0, 0)


def raise_open_files(wanted: int) -> int:
    """Raise the limit of open files as far as allowed: the master of thousands of nodes needs more than the default.
    Returns the limit, at most `wanted`."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        original_open_files.append((soft, hard))
        soft = allowed
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, soft)


def restore_open_files() -> None:
    """Restore the limit for workers: some programs iterate over all descriptors below it."""
    if original_open_files:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, original_open_files[0])


def require_files(workers: int, logs: int) -> None:
    """Raise TooFewFiles unless the node can open what it takes to watch the workers and to read so many logs."""
    needed, limit = NODES_FILES + logs, os.sysconf("SC_OPEN_MAX")
    try:
        lowest_free = os.dup(2)
        os.close(lowest_free)
    except OSError:
        lowest_free = limit
    if lowest_free + needed > limit >= 0:
        raise TooFewFiles(limit, workers, lowest_free + needed)


class SpareFiles:
    """Descriptors that are held until the process has no others left: it can then do its most important work."""

    def __init__(self) -> None:
        self._held: list[int] = []
        try:
            for _ in range(SPARE_FILES):
                self._held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass  # fewer are better than none

    def release_if_none_left(self) -> bool:
        """Release them if no other descriptor is left. Returns whether it has done so."""
        try:
            os.close(os.dup(2))
        except OSError:
            return self.release()
        return False

    def release(self) -> bool:
        held, self._held = self._held, []
        for fd in held:
            os.close(fd)
        return bool(held)
