"""Runs imports in a parked interpreter: slowly while the CPUs have other work, and so that nothing that an import
starts outlives the node.
Runs in workers' interpreters: Python 3.8."""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

from flota.host.kill_tree import descendants_of, kill, stat_fields
from flota.host.process_attributes import become_subreaper, die_with_parent, name_process
from flota.standby.modules_to_import import ModulesToImport

SIGSTOP = 19
CPU_SHARE = 0.1  # of one CPU, for imports that can wait, while all CPUs have work


def run_imports(modules: ModulesToImport, is_urgent: Callable[[], bool] | None) -> str:
    """Why a required module could not be imported; empty when all could. They are slow until `is_urgent` holds."""
    main = sys.modules["__main__"]
    if not modules.is_module:
        main.__file__ = modules.script  # for modules that ask whether they are in a shell
    folders = [modules.folder] if modules.folder else []
    finders = [SlowDown(is_urgent)] if is_urgent else []
    sys.path[:0] = folders
    sys.meta_path[:0] = finders
    try:
        for name, variables in [*modules.required, *((name, {}) for name in modules.optional)]:
            os.environ.update(variables)
            try:
                import_module(name)
            except BaseException as error:  # a module may do anything, ending the program included
                if name in modules.names:
                    return f"cannot import `{name}`: {type(error).__name__}: {error}"
        return ""
    finally:
        sys.path[:] = [folder for folder in sys.path if folder not in folders]
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in finders]
        vars(main).pop("__file__", None)


class SlowDown:
    """A finder that is asked first for every module. It finds none, but sleeps while all CPUs are busy.

    A low priority would be simpler, but it cannot be raised again without a privilege, and would stay the worker's.
    """

    def __init__(self, is_urgent: Callable[[], bool]) -> None:
        self._is_urgent = is_urgent
        self._used = time.process_time()

    def find_spec(self, *_: object) -> None:
        used = time.process_time()
        until = time.monotonic() + (used - self._used) * (1 / CPU_SHARE - 1)
        self._used = used
        while (owed := until - time.monotonic()) > 0 and not self._is_urgent() and is_busy():
            time.sleep(min(0.1, owed))


def is_busy() -> bool:
    """Whether more processes want a CPU than there are."""
    with open("/proc/loadavg") as file:
        running = int(file.read().split()[3].partition("/")[0])
    return running > len(os.sched_getaffinity(0))


@contextmanager
def guarded(link: socket.socket) -> Iterator[None]:
    """Until it is left, this process and all that it starts, in any session, end when the `link` does.

    A fork template is not below a shepherd, and does not read the link during an import. A child reads it instead.
    """
    become_subreaper()
    parent = os.getpid()
    guard = os.fork()
    if guard == 0:
        try:
            die_with_parent(parent)  # or its copy of the link would hide the parent's end
            name_process("flota-guard")
            poll = select.poll()
            poll.register(link, 0)
            poll.poll()
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
        become_subreaper(now=False)  # the shepherds that it forks must become the node's children


def _end(parent: int) -> None:
    os.kill(parent, SIGSTOP)  # now it starts no process, and remains the parent of those that it has
    while others := [pid for pid in descendants_of(parent) if pid != os.getpid() and not _is_dead(pid)]:
        for pid in others:
            kill(pid)
        time.sleep(0.0005)
    kill(parent)


def _is_dead(pid: int) -> bool:
    """It stays listed while its parent is stopped, and does not reap it."""
    return stat_fields(pid)[:1] in ([], ["Z"], ["X"])
