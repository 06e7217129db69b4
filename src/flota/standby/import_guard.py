"""Ends what imports have started when the node dies in the middle of them.

A parked interpreter that workers are to be forked from has no shepherd, and while it is deep in an import it hears
nothing. A child that does nothing else listens in its place.

Runs in workers' interpreters: Python 3.8.
"""

from __future__ import annotations

import os
import select
import time
from contextlib import contextmanager

from flota.host.kill_tree import descendants_of, kill, stat_fields
from flota.host.prctl import become_subreaper, die_with_parent, name_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

SIGSTOP = 19


@contextmanager
def guarded(link: socket.socket) -> Iterator[None]:
    """Until it is left, this process and all that it starts, in whatever session, end when the `link` does."""
    become_subreaper()
    parent = os.getpid()
    guard = os.fork()
    if guard == 0:
        try:
            die_with_parent(parent)  # or its copy of the link would hide the parent's end
            name_process("flota-guard")
            _wait_for_end(link)
            _end(parent)
        finally:
            os._exit(0)
    try:
        yield
    finally:
        kill(guard)
        try:
            os.waitpid(guard, 0)
        except ChildProcessError:
            pass  # an import has made the kernel reap all children
        become_subreaper(now=False)  # the shepherds of its forks are to be the node's children


def _wait_for_end(link: socket.socket) -> None:
    poll = select.poll()
    poll.register(link, 0)
    poll.poll()


def _end(parent: int) -> None:
    os.kill(parent, SIGSTOP)  # it starts nobody any more, and keeps whom it has until they are gone
    while others := [pid for pid in descendants_of(parent) if pid != os.getpid() and not _is_dead(pid)]:
        for pid in others:
            kill(pid)
        time.sleep(0.0005)
    kill(parent)


def _is_dead(pid: int) -> bool:
    """Nobody reaps it while its parent stands still."""
    return stat_fields(pid)[:1] in ([], ["Z"], ["X"])
