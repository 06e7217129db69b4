"""The program's line to the node of its workers: starts it, hears it, and passes on what the workers write.

One thread a job does the hearing, so that nothing depends on what the program does meanwhile. No signal handler is set
and no child but the node is waited for: everything else in this process is the program's own.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import atexit
import os
import select
import sys
import threading

from flota.errors.spawning import CannotStartNode
from flota.host.ports import release
from flota.spawning.notebook_output import Forwarder, close_outputs
from flota.spawning.pickled_call import close_all, file_with, interpreter_command
from flota.spawning.supervisor_process import Orders, tend_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

# The program may ignore them, and what is ignored stays so behind exec: the first two are Python's own habit.
DEFAULTED = (_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGCHLD, _signal.SIGTERM)


class SupervisorClient:
    """What is known of the workers; complete when `ended` is set. `kind`: the verdict's; None: the node was lost."""

    def __init__(
        self, workers: int, held: list[socket], locks: list[int], forwarders: list[Forwarder], *, daemon: bool
    ) -> None:
        self.workers = workers
        self.pids: dict[int, int] = {}
        self.codes: dict[int, int] = {}
        self.unstarted: dict[int, int] = {}
        self.failures: list[tuple[int, int, str, float]] = []
        self.kind: str | None = None
        self.exit_code = 0
        self.code = 0  # the node's own
        self.timed_out = False
        self.started = threading.Event()
        self.ended = threading.Event()
        self.changed = threading.Condition()
        self._held = held
        self._locks = locks
        self._forwarders = forwarders
        self._daemon = daemon
        self._node = 0  # its pid
        self._listens = False
        self._writing = threading.RLock()  # a signal handler may write in the middle of a write

    def start(self, orders: Orders, env: dict[str, str], *, fork: bool) -> None:
        """Start the node, and through it the workers. `env`: the node's own; a fork has the program's."""
        self._program = os.getpid()
        pipes: list[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            commands, self._commands, self._reports, reports = pipes
            orders = orders._replace(program=self._program, commands=commands, reports=reports)
            _flush()  # what the program has written before comes before; and forks would write it again
            self._node = self._fork(orders) if fork else _execute(orders, env)
        except Exception as error:
            close_all(pipes)
            self._release()
            if isinstance(error, OSError):
                raise CannotStartNode(error) from None
            raise
        os.close(commands)
        os.close(reports)
        for forwarder in self._forwarders:
            forwarder.close_writer()
        atexit.register(self._end_with_program)
        self._listen_in_thread()

    def _listen_in_thread(self) -> None:
        self._listens = True
        try:
            threading.Thread(target=self._listen, name="flota", daemon=True).start()
        except RuntimeError as error:  # there are as many as there may be
            self._listens = False
            self.give_up()
            raise CannotStartNode(error) from None

    def wait(self, timeout: float | None = None) -> bool:
        """Whether all have ended. Ctrl-C ends them, a second one at once, and then goes on its way."""
        try:
            return self.ended.wait(timeout)
        except BaseException:  # or whatever else the program's own signal handlers raise
            self.send("stop")
            try:
                self.ended.wait()
            except BaseException:
                self.kill()
            raise

    def kill(self) -> None:
        self.send("kill")
        self.ended.wait()

    def send(self, word: str) -> None:
        with self._writing:
            if not self.ended.is_set():
                try:
                    os.write(self._commands, f"{word}\n".encode())
                except OSError:
                    pass  # the node is gone; the reports say so next

    def give_up(self) -> None:
        """Whoever wanted the workers does not want them any more."""
        if self._listens:
            self.kill()
        elif self._node and not self.ended.is_set():
            try:
                os.kill(self._node, _signal.SIGKILL)  # nobody would hear it; its shepherd ends the workers
            except ProcessLookupError:
                pass  # the program reaps every child, or ignores SIGCHLD
            self._close()

    def _fork(self, orders: Orders) -> int:
        node = os.fork()
        if node == 0:
            tend_fork(orders, [self._commands, self._reports])
        return node

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._reports, select.POLLIN)
        by_fd = {forwarder.fd: forwarder for forwarder in self._forwarders}
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        rest = b""
        open_ = True
        while open_:
            for fd, _ in poll.poll():
                if fd in by_fd:
                    if not by_fd[fd].pass_on():
                        poll.unregister(fd)
                    continue
                data = os.read(self._reports, 65536)
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._note(line.decode())
                open_ = bool(data)
        for forwarder in self._forwarders:
            forwarder.finish()
        self._close()

    def _note(self, line: str) -> None:
        word, *rest = line.split()
        if word == "started":
            self.pids[int(rest[0])] = int(rest[1])
        elif word == "exited":
            self.codes[int(rest[0])] = int(rest[1])
        elif word == "unstarted":
            self.unstarted[int(rest[0])] = int(rest[1])
        elif word == "failure":
            self.failures.append((int(rest[0]), int(rest[1]), rest[2], float(rest[3])))
        elif word == "timeout":
            self.timed_out = True
        elif word == "ended":
            self.kind, self.exit_code = rest[0], int(rest[1])
        with self.changed:
            self.changed.notify_all()
        if len(self.pids) + len(self.unstarted) == self.workers:
            self.started.set()

    def _close(self) -> None:
        try:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self._node, 0)[1])
        except ChildProcessError:
            pass  # the program reaps every child, or ignores SIGCHLD
        atexit.unregister(self._end_with_program)
        os.close(self._reports)
        self._release()
        with self._writing:
            os.close(self._commands)
            self.started.set()
            self.ended.set()
        with self.changed:
            self.changed.notify_all()

    def _release(self) -> None:
        release(self._held)
        for lock in self._locks:
            os.close(lock)
        close_outputs(self._forwarders)

    def _end_with_program(self) -> None:
        """The program is about to exit: daemons are ended, as is everybody when an exception is the reason."""
        if os.getpid() != self._program:
            return  # a fork of the program, whose exit is nobody's
        # A shell notes every mistake that was made in it, and goes on.
        failed = getattr(sys, "last_value", None) is not None and not hasattr(sys, "ps1")
        if self._daemon or failed:
            self.send("kill")
        self.ended.wait()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass  # closed, or nobody reads it: the program's own to find out


def _execute(orders: Orders, env: dict[str, str]) -> int:
    inherited = (*orders.inherited, orders.commands, orders.reports)
    import pickle

    written = file_with(pickle.dumps(orders._replace(inherited=inherited)))
    body = f"from flota.spawning.supervisor_process import main; main({written})"
    try:
        return os.posix_spawn(
            sys.executable,
            interpreter_command(body, bare=True),
            env,
            # Onto itself: that it stays open behind exec.
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, fd) for fd in (*inherited, written)],
            setsid=True,
            setsigmask=(),
            setsigdef=DEFAULTED,
        )
    finally:
        os.close(written)
