"""One process to start: what it is, and how it comes to its streams."""

from __future__ import annotations

import os
from _signal import SIGPIPE, SIGXFSZ  # type: ignore[import-not-found]

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class Spawn(NamedTuple):
    """One worker to start: what to run, and where its two streams go (None keeps the node's own).

    `keeps`: descriptors that it gets under their own numbers. `call`: what a fork of the shepherd does in the place of
    `argv`; it ends with the code that this gives.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    stdout: str | int | None
    stderr: str | int | None
    keeps: tuple[int, ...] = ()
    call: Callable[[], int] | None = None


def execute(spawn: Spawn, *, own_session: bool) -> int:
    """Its pid; OSError when the program cannot be run."""
    return os.posix_spawn(
        spawn.argv[0],
        spawn.argv,
        spawn.env,
        file_actions=_file_actions(spawn),
        setsid=own_session,
        # Python ignores these two for itself; ignored signals would stay ignored in the worker.
        setsigdef=(SIGPIPE, SIGXFSZ),
    )


def exit_code(status: int) -> int:
    """As `os.waitstatus_to_exitcode` has it, which Python 3.8 has not."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def descriptors_of(spawn: Spawn) -> list[int]:
    return [fd for fd in (spawn.stdout, spawn.stderr, *spawn.keeps) if isinstance(fd, int)]


def _file_actions(spawn: Spawn) -> list[tuple[int, int, str, int, int] | tuple[int, int, int]]:
    actions: list[tuple[int, int, str, int, int] | tuple[int, int, int]] = []
    if spawn.stdout is None or spawn.stderr is None:
        return actions
    actions.append((os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0))
    for fd, target in ((1, spawn.stdout), (2, spawn.stderr)):
        if fd == 2 and target == spawn.stdout:
            actions.append((os.POSIX_SPAWN_DUP2, 1, 2))
        elif isinstance(target, int):
            actions.append((os.POSIX_SPAWN_DUP2, target, fd))
        else:
            actions.append((os.POSIX_SPAWN_OPEN, fd, target, APPEND, 0o666))
    # Onto itself: that the program behind exec keeps it.
    actions += [(os.POSIX_SPAWN_DUP2, fd, fd) for fd in spawn.keeps]
    return actions


def redirect(spawn: Spawn) -> None:
    """What `_file_actions` says, to this very process."""
    for action, fd, *rest in _file_actions(spawn._replace(keeps=())):
        source, target = fd, rest[0]
        if action == os.POSIX_SPAWN_OPEN:
            path, flags, mode = rest
            source, target = os.open(path, flags, mode), fd  # type: ignore[arg-type]
        assert isinstance(target, int)
        os.dup2(source, target)
        os.set_inheritable(target, True)  # noqa: FBT003  onto itself, dup2 changes nothing
        if action == os.POSIX_SPAWN_OPEN and source != target:
            os.close(source)
