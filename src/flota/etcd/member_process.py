"""The etcd process of a node. When the node dies, the kernel sends it SIGTERM: it then passes leadership on, which
takes 20 ms. After SIGKILL the other members would hold an election, which takes more than a second.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from flota import libc
from flota.etcd.private_directory import PrivateDirectory
from flota.files import open_file
from flota.host.kill_tree import kill, other_children
from flota.host.loop import Loop
from flota.host.process_start import APPEND, PR_SET_PDEATHSIG, ProcessSpec, redirect, restore_open_files

SIGKILL, SIGTERM = 9, 15
GRACE = 1.0  # seconds to pass leadership on; without a majority, etcd would wait for 7
CANNOT_RUN = 127


class MemberProcess:
    """Must be created in the main thread: the kernel's signal is for the end of the thread that forked."""

    def __init__(
        self,
        argv: tuple[str, ...],
        env: dict[str, str],
        log: str,
        directory: PrivateDirectory,
        loop: Loop,
        on_exit: Callable[[], object],
    ) -> None:
        self._directory, self._loop, self._on_exit = directory, loop, on_exit
        out = open_file(log, APPEND, 0o644)
        try:
            self.pid = _fork(ProcessSpec(argv, env, out, out), directory.lock)
        finally:
            os.close(out)
        other_children.add(self.pid)
        self._exit = os.pidfd_open(self.pid)
        loop.watch(self._exit, self._on_end)

    def _on_end(self) -> None:
        self._close()
        self._on_exit()

    def stop(self, signal: int) -> None:
        """Send the signal, and SIGKILL if it has not exited in time."""
        kill(self.pid, signal)
        poll = select.poll()
        poll.register(self._exit, select.POLLIN)
        if not poll.poll(GRACE * 1000):
            kill(self.pid)
            poll.poll()
        self._close()

    def _close(self) -> None:
        self._loop.forget(self._exit)
        os.close(self._exit)
        other_children.discard(self.pid)
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass  # reaped as an orphan


def _fork(process: ProcessSpec, lock: int) -> int:
    node = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        libc.call("prctl", PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0)
        if os.getppid() == node:
            restore_open_files()
            redirect(process)
            os.set_inheritable(lock, True)  # noqa: FBT003
            os.execve(process.argv[0], process.argv, process.env)
    finally:
        os._exit(CANNOT_RUN)
