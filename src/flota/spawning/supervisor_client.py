"""The caller's connection to the node of its workers: starts it, receives its reports, forwards workers' output.

One thread per call receives reports, whatever the caller does meanwhile. This module sets no signal handler and waits
for no child but the node: everything else in this process belongs to the user's program.
"""

import atexit
import codecs
import io
import os
import pickle
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

from flota.errors.spawning import CannotStartNode
from flota.host.kill_tree import kill, stat_fields
from flota.host.process_start import SIGCONT, ProcessSpec, execute
from flota.host.round import KILL_PATIENCE
from flota.spawning.pickled_call import anonymous_file, interpreter_command
from flota.spawning.supervisor_process import SpawnRequest, inherited_fds, supervise


class SupervisorClient:
    """The state of the workers, final when `has_ended`. `kind` is that of the verdict, or None if the node was lost."""

    def __init__(self, workers: int, *, daemon: bool) -> None:
        self.workers = workers
        self.pids: dict[int, int] = {}
        self.codes: dict[int, int] = {}
        self.start_errors: dict[int, int] = {}
        self.failures: list[tuple[int, int, str, float]] = []
        self.kind: str | None = None
        self.exit_code = 0
        self.node_code = 0  # the node's own exit code
        self.timed_out = False
        self.has_ended = False
        self._changed = threading.Condition()
        self.resources = ExitStack()  # closed when the workers have exited, or could not be started
        self.until_started = ExitStack()  # descriptors for the node and the workers: our copies would keep pipes open
        self._forwarders: list[Forwarder] = []
        self._daemon = daemon
        self._caller = os.getpid()
        self._node = 0  # its pid
        self._listens = False
        self._unfinished_line = b""
        self._writing = threading.RLock()  # reentrant: a signal handler may call `send` during a `send`

    @contextmanager
    def starting(self) -> Iterator[None]:
        """On an error or Ctrl-C, kill what has been started: the caller has no object to do it with."""
        try:
            yield
        except BaseException as error:
            self.until_started.close()
            self._give_up()
            if isinstance(error, OSError):
                raise CannotStartNode(error) from None
            raise

    def open_outputs(self) -> list[int]:
        """Return descriptors for the workers' stdout and stderr."""
        targets: list[int] = []
        for stream, fd in ((sys.stdout, 1), (sys.stderr, 2)):
            if is_plain(stream, fd):
                targets.append(fd)
                continue
            reader, writer = os.pipe()
            self.resources.callback(os.close, reader)
            self.until_started.callback(os.close, writer)
            self._forwarders.append(Forwarder(reader, stream))
            targets.append(writer)
        return targets

    def start(self, request: SpawnRequest, env: dict[str, str]) -> None:
        """Start the node, which starts the workers. `env` is the node's, unless it is a fork of the caller."""
        commands, self._commands = os.pipe()
        self.until_started.callback(os.close, commands)
        self.resources.callback(os.close, self._commands)
        self._reports, reports = os.pipe()
        self.until_started.callback(os.close, reports)
        self.resources.callback(os.close, self._reports)
        request = request._replace(caller=self._caller, commands=commands, reports=reports)
        _flush()  # keeps the order of output; and forks would write buffered output again
        if request.call:
            self._node = os.fork()
            if self._node == 0:
                supervise(request, (self._commands, self._reports))
        else:
            request_fd = anonymous_file(self.until_started, pickle.dumps(request))
            body = f"from flota.spawning.supervisor_process import main; main({request_fd})"
            fds = (*inherited_fds(request), request_fd)
            node = ProcessSpec(interpreter_command(body, bare=True), env, None, None, fds)
            self._node = execute(node, own_session=True)
        self.until_started.close()
        atexit.register(self._end_with_caller)
        try:
            self._listens = True
            threading.Thread(target=self._listen, name="flota", daemon=True).start()
        except RuntimeError as error:  # too many threads
            self._listens = False
            raise CannotStartNode(error) from None

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the workers. Returns whether all have exited. Ctrl-C stops them, a second one kills them."""
        try:
            return self.wait_until(lambda: self.has_ended, timeout)
        except BaseException:  # KeyboardInterrupt, or what the caller's signal handlers raise
            self.send("stop")
            try:
                self.wait_until(lambda: self.has_ended)
            except BaseException:
                self.kill()
            raise

    def kill(self) -> None:
        """Kill the workers and wait until they have exited. A node that is stopped again and again is killed itself:
        then the shepherd kills the workers."""
        self.send("kill")
        while not self.wait_until(lambda: self.has_ended, KILL_PATIENCE):
            if stat_fields(self._node)[:1] in (["T"], ["t"]):
                kill(self._node)

    def wait_until(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        with self._changed:
            return self._changed.wait_for(condition, timeout)

    def has_started(self) -> bool:
        return self.has_ended or len(self.pids) + len(self.start_errors) == self.workers

    def send(self, command: str) -> None:
        with self._writing:
            if not self.has_ended:
                try:
                    os.write(self._commands, f"{command}\n".encode())
                except OSError:
                    pass  # the node is gone; end of file on its report pipe follows
                kill(self._node, SIGCONT)  # it must perform the command even if a user has stopped it

    def _give_up(self) -> None:
        if self._listens:
            self.kill()
        elif self._node:
            # No thread receives its reports. When it dies, the shepherd kills the workers.
            kill(self._node)
            self._close()
        else:
            self.resources.close()

    def _listen(self) -> None:
        poll = select.poll()
        readers = {forwarder.fd: forwarder.forward for forwarder in self._forwarders}
        readers[self._reports] = self._read_reports
        for fd in readers:
            poll.register(fd, select.POLLIN)
        while self._reports in readers:
            for fd, _ in poll.poll():
                if not readers[fd]():
                    poll.unregister(fd)
                    del readers[fd]
        for forwarder in self._forwarders:
            while forwarder.forward():
                pass
        self._close()

    def _read_reports(self) -> bool:
        """Returns False when the node has exited."""
        data = os.read(self._reports, 65536)
        *lines, self._unfinished_line = (self._unfinished_line + data).split(b"\n")
        for line in lines:
            self._handle_report(*line.decode().split())
        return bool(data)

    def _handle_report(self, kind: str, *fields: str) -> None:
        by_rank = {"started": self.pids, "exited": self.codes, "unstarted": self.start_errors}
        if kind in by_rank:
            by_rank[kind][int(fields[0])] = int(fields[1])
        elif kind == "failure":
            self.failures.append((int(fields[0]), int(fields[1]), fields[2], float(fields[3])))
        elif kind == "timeout":
            self.timed_out = True
        elif kind == "ended":
            self.kind, self.exit_code = fields[0], int(fields[1])
        with self._changed:
            self._changed.notify_all()

    def _close(self) -> None:
        try:
            self.node_code = os.waitstatus_to_exitcode(os.waitpid(self._node, 0)[1])
        except ChildProcessError:
            pass  # the caller reaps every child, or ignores SIGCHLD
        atexit.unregister(self._end_with_caller)
        with self._writing:
            self.resources.close()
            self.has_ended = True
        with self._changed:
            self._changed.notify_all()

    def _end_with_caller(self) -> None:
        """Wait for the workers when the caller exits; kill daemons first, and all after an uncaught exception."""
        if os.getpid() != self._caller:
            return  # a fork of the caller: its exit does not affect the workers
        # An interactive shell sets `last_value` as well, and continues.
        failed = getattr(sys, "last_value", None) is not None and not hasattr(sys, "ps1")
        if self._daemon or failed:
            self.kill()
        self.wait_until(lambda: self.has_ended)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass  # closed, or without a reader: the user's program will notice


def is_plain(stream: object, fd: int) -> bool:
    """Whether a stream is the process's original one, so that workers can write to it directly."""
    if type(stream) is not io.TextIOWrapper:
        return False
    try:
        return stream.fileno() == fd
    except (OSError, ValueError):
        return False


class Forwarder:
    """Copies output from a pipe to the object that replaced the caller's stream, such as a notebook cell."""

    def __init__(self, fd: int, stream: TextIO | None) -> None:
        self.fd = fd
        self.stream = stream
        os.set_blocking(fd, False)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def forward(self) -> bool:
        """Write what is in the pipe. Returns False if it is empty: at its end, or held open by another process."""
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            data = b""
        text = self._decode(data, not data)
        if text and self.stream is not None:
            try:
                self.stream.write(text)
                self.stream.flush()
            except Exception:  # noqa: S110  closed: there is nowhere to report it
                pass
        return bool(data)
