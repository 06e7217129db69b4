"""The node's side of parked interpreters: one fork template, or a pool with one interpreter per worker.

Each is started with a worker's command and our `sitecustomize`, which Python imports before it runs the script.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from flota.host.kill_tree import has_exited, kill, kill_inherited, kill_tree, other_children
from flota.host.process_start import SIGCONT, ProcessSpec, become_subreaper, execute
from flota.host.round import KILL_PATIENCE
from flota.host.shepherd import fork_shepherd
from flota.standby.parked_protocol import import_request, pack, receive, send
from flota.standby.site_folder import with_site
from flota.standby.strategy import common_variables, varying_variables


@contextmanager
def _to_park(processes: list[ProcessSpec]) -> Iterator[tuple[list[socket.socket], list[ProcessSpec]]]:
    """Yield a link and a command per interpreter; the caller starts them. An error closes the links."""
    links: list[socket.socket] = []
    commands: list[ProcessSpec] = []
    with ExitStack() as always, ExitStack() as on_failure:
        for process in processes:
            link, other = socket.socketpair()
            always.callback(other.close)
            on_failure.callback(link.close)
            # Output of imports goes to memfds; every worker prints it later.
            out = err = os.memfd_create("flota", os.MFD_CLOEXEC)
            if process.stdout != process.stderr:
                err = os.memfd_create("flota", os.MFD_CLOEXEC)
            for fd in {out, err}:
                always.callback(os.close, fd)
            command = process._replace(stdout=out, stderr=err, inherited_fds=(other.fileno(),))
            links.append(link)
            commands.append(with_site(command, FLOTA_PARK=str(other.fileno())))
        yield links, commands
        on_failure.pop_all()


class ForkTemplate:
    """One parked interpreter from which workers are forked. `link` becomes readable when it sends a report or exits."""

    def __init__(
        self, processes: list[ProcessSpec], modules: Sequence[str], learnt: Sequence[str], share: float
    ) -> None:
        self.began = time.monotonic()
        self.ready_at: float | None = None  # when its imports were done, and it could be forked
        self.names: list[str] = []  # what it has imported by then
        environments = [process.env for process in processes]
        with _to_park([processes[0]._replace(env=common_variables(environments))]) as ([self.link], [command]):
            become_subreaper()  # the shepherds that it forks must become children of the node
            self.pid = execute(command, own_session=True)
            other_children.add(self.pid)
            assert isinstance(command.stderr, int)
            self._stderr = os.dup(command.stderr)
        varying = varying_variables(environments)
        send(self.link, import_request(processes[0], modules, learnt, varying=varying, share=share))

    def fork(self, processes: list[ProcessSpec], *, records: bool) -> tuple[int, int, int]:
        """Like `fork_shepherd`, but the pid arrives later, on the report pipe. If the template is gone, the pipe closes
        immediately and the workers start cold."""
        commands, command_end = os.pipe()
        report_end, reports = os.pipe()
        fds = [commands, reports]
        packed = pack(processes, fds)
        message = {"do": "fork", "processes": packed, "under_init": os.getpid() == 1, "records": records}
        send(self.link, message, fds)
        os.close(commands)
        os.close(reports)
        return 0, command_end, report_end

    def close(self) -> None:
        """Kill the template and the processes that its imports started. If it has exited, the node has inherited
        them."""
        other_children.discard(self.pid)
        if has_exited(self.pid):
            kill_inherited(session=self.pid)
        kill_tree(self.pid)
        self.link.close()
        os.close(self._stderr)

    def clock(self) -> float:
        """Return the time in seconds, without the time for which the template was runnable but had no CPU."""
        try:
            with open(f"/proc/{self.pid}/schedstat") as file:
                return time.monotonic() - int(file.read().split()[1]) / 1e9
        except (OSError, IndexError):
            return time.monotonic()

    def last_line(self) -> str:
        """Return the last line that the template printed to stderr."""
        size = os.fstat(self._stderr).st_size
        lines = os.pread(self._stderr, 1 << 16, max(0, size - (1 << 16))).decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line), "")


class StandbyPool:
    """One parked interpreter per worker of the next round, under a shepherd of their own.

    They import one after the other, as long as their total memory stays below `limit`. One that has not imported
    anything is equivalent to a cold start.
    """

    def __init__(self, processes: list[ProcessSpec], modules: Sequence[str], learnt: Sequence[str], limit: int) -> None:
        self.began = time.monotonic()
        self.seconds = 0.0  # that the imports of one interpreter took
        self.ready = 0  # interpreters whose imports are done
        self.asked = 0  # interpreters that were asked to import
        self._limit = limit
        self._largest = 0  # bytes of the largest interpreter
        self._requests = [import_request(process, modules, learnt, limit=limit) for process in processes]
        with _to_park(processes) as (self.links, commands):
            self._shepherd = fork_shepherd(commands, own_session=True, close_fds=True)
        self.pid, _, self.reports = self._shepherd
        other_children.add(self.pid)
        self._ask_next()

    def _ask_next(self) -> None:
        if self.asked < len(self.links) and (self.asked + 1) * self._largest <= self._limit:
            send(self.links[self.asked], self._requests[self.asked])
            self.asked += 1

    @property
    def too_large(self) -> str:
        """Why not even one interpreter fits into the limit; empty if one does."""
        if self._largest <= self._limit:
            return ""
        return f"one interpreter takes {self._largest >> 20} MiB, and the limit for all is {self._limit >> 20} MiB"

    def read(self, number: int) -> dict[str, Any] | None:
        """Read the report of an interpreter whose imports are done; None if it exited."""
        received = receive(self.links[number])
        if received is None:
            return None
        self.ready += 1
        self.seconds = received[0].get("seconds", 0.0)
        self._largest = max(self._largest, received[0]["memory"])
        self._ask_next()
        return received[0]

    def hand_over(self, processes: list[ProcessSpec], *, records: bool) -> tuple[int, int, int]:
        """Turn the interpreters into the workers of a round. Returns the same as `fork_shepherd`."""
        other_children.discard(self.pid)
        for link, process in zip(self.links, processes, strict=True):
            fds: list[int] = []
            packed = pack([process], fds)
            send(link, {"do": "run", "processes": packed, "records": records}, fds)
        return self._shepherd

    @property
    def is_alive(self) -> bool:
        """Whether all interpreters and their shepherd are alive. Leaves the shepherd's reports for the round."""
        poll = select.poll()
        for fd in (self.reports, *(link.fileno() for link in self.links)):
            poll.register(fd, 0)
        return not poll.poll(0)

    def close(self) -> None:
        """Close the shepherd's command pipe: it kills the interpreters and exits."""
        pid, commands, reports = self._shepherd
        other_children.discard(pid)
        os.close(commands)
        for link in self.links:
            link.close()
        kill(pid, SIGCONT)
        exits = select.poll()
        exits.register(reports, 0)
        exits.poll(KILL_PATIENCE * 1000)
        kill_tree(pid)  # only reaps it, unless it was stopped
        os.close(reports)
