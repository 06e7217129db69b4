"""Starts one process with its standard streams connected, and sets attributes of the current process: subreaper, title,
death signal (on Linux only), limit of open files, spare descriptors."""

from __future__ import annotations

import os
from _collections_abc import Callable
from _signal import SIGPIPE, SIGXFSZ  # type: ignore[import-not-found]

from flota import libc
from flota.errors import TooFewFiles
from flota.files import open_file
from flota.host.kill_tree import stat_fields
from flota.values import NamedTuple

APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
SIGKILL, SIGCONT = 9, 18
SPARE_FILES = 12  # enough to import a module, to write a report, to ask py-spy
NODES_FILES = SPARE_FILES + 12  # that a node opens when it watches workers, besides their logs
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_GET_NAME = 16
PR_SET_CHILD_SUBREAPER = 36
original_open_files: list[tuple[int, int]] = []  # the limits before they were raised; empty if they were not


class ProcessSpec(NamedTuple):
    """What to run. `stdout` and `stderr` are a file, a descriptor, or None to share the node's; `stdin` is a
    descriptor, or None for no input.

    `inherited_fds`: descriptors that the process inherits under the same numbers. `call`: a function that a fork of the
    shepherd runs instead of `argv`; its return value is the exit code. `cpus` and `memory_node`: see host/affinity.py.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    stdout: str | int | None
    stderr: str | int | None
    inherited_fds: tuple[int, ...] = ()
    call: Callable[[], int] | None = None
    cpus: tuple[int, ...] = ()  # empty: those of the node
    memory_node: int = -1
    stdin: int | None = None


def execute(process: ProcessSpec, *, own_session: bool) -> int:
    """Start the program and return its pid. Raises OSError if it cannot be run, or if a log cannot be opened."""
    opened: list[int] = []
    try:
        return os.posix_spawn(
            process.argv[0],
            process.argv,
            process.env,
            file_actions=_file_actions(process, opened),
            setsid=own_session,
            # Python ignores these two; without a reset, workers would inherit that.
            setsigdef=(SIGPIPE, SIGXFSZ),
        )
    finally:
        for fd in opened:
            os.close(fd)


def exit_code(status: int) -> int:
    """`os.waitstatus_to_exitcode`, which Python 3.8 lacks."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def descriptors_of(process: ProcessSpec) -> list[int]:
    streams = process.stdin, process.stdout, process.stderr
    return [fd for fd in (*streams, *process.inherited_fds) if isinstance(fd, int)]


def _streams(process: ProcessSpec) -> list[tuple[int, str | int, int]]:
    """Return the standard streams to connect: (stream, file or descriptor, flags to open a file)."""
    if process.stdout is None or process.stderr is None:
        return []
    stderr = 1 if process.stderr == process.stdout else process.stderr
    stdin = os.devnull if process.stdin is None else process.stdin
    return [(0, stdin, os.O_RDONLY), (1, process.stdout, APPEND), (2, stderr, APPEND)]


def _file_actions(
    process: ProcessSpec, opened: list[int]
) -> list[tuple[int, int, str, int, int] | tuple[int, int, int]]:
    """Opens the files, and adds their descriptors to `opened`. A POSIX_SPAWN_OPEN could block, as on a FIFO, and the
    caller would wait for it where it hears nothing."""
    actions: list[tuple[int, int, str, int, int] | tuple[int, int, int]] = []
    for fd, target, flags in _streams(process):
        if target == os.devnull:
            actions.append((os.POSIX_SPAWN_OPEN, fd, os.devnull, flags, 0))
        elif isinstance(target, int):
            actions.append((os.POSIX_SPAWN_DUP2, target, fd))
        else:
            opened.append(open_file(target, flags, 0o666))
            actions.append((os.POSIX_SPAWN_DUP2, opened[-1], fd))
    # dup2 onto itself clears close-on-exec.
    return actions + [(os.POSIX_SPAWN_DUP2, fd, fd) for fd in process.inherited_fds]


def redirect(process: ProcessSpec) -> None:
    """Connect the standard streams of the current process as `process` specifies."""
    for fd, target, flags in _streams(process):
        if target == os.devnull:
            source = os.open(target, flags)
        else:
            source = target if isinstance(target, int) else open_file(target, flags, 0o666)
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


def continue_when_parent_dies() -> None:
    """Have the kernel send SIGCONT when the parent dies: a process that is stopped could not react."""
    libc.call("prctl", PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0)


def set_title(name: bytes, arguments: bytes) -> tuple[bytes, bytes]:
    """Set the name and the command line of this process, as `ps` and `pkill` see them. Returns the former ones.

    There is no system call for the command line, so this writes to where the kernel reads it. Without /proc, only the
    name is set.
    """
    former_name, former_arguments = bytes(16), b""
    libc.call("prctl", PR_GET_NAME, former_name, 0, 0, 0)  # fills these bytes, to which nothing else refers yet
    libc.call("prctl", PR_SET_NAME, name, 0, 0, 0)
    try:
        start, end = map(int, stat_fields("self")[45:47])  # arg_start, arg_end
        memory = os.open("/proc/self/mem", os.O_RDWR)
        try:
            former_arguments = os.pread(memory, end - start, start)
            os.pwrite(memory, arguments[: end - start - 1].ljust(end - start, b"\0"), start)
        finally:
            os.close(memory)
    except (OSError, ValueError):
        pass
    return former_name, former_arguments


def fork_with_title(title: bytes) -> tuple[int, tuple[bytes, bytes]]:
    """Fork. Returns the pid, 0 in the child, and the title of this process, which the child does not have. If the child
    is stopped when its parent dies, it is continued.

    The child must have its own title from the first moment: `pkill` first collects processes, and kills them later.
    """
    pid, before = -1, set_title(title, title)
    try:
        pid = os.fork()
        if pid == 0:
            continue_when_parent_dies()
    finally:
        if pid:
            set_title(*before)
    return pid, before


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
