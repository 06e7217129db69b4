"""Parked interpreters as the node sees them: one fork template, or a pool with one interpreter for each worker.

The command of each is a worker's own, but with our `sitecustomize`, which Python imports before it runs the script.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from flota.host.kill_tree import kill_tree
from flota.host.process_start import ProcessSpec, become_subreaper, execute
from flota.host.shepherd import fork_shepherd
from flota.standby.parked_protocol import import_request, pack, receive, send
from flota.standby.strategy import common_variables

SITE = os.path.join(os.path.dirname(__file__), "site")


def with_site(spawn: ProcessSpec, **variables: str) -> ProcessSpec:
    env = {**spawn.env, **variables}
    if "PYTHONPATH" in env:
        env["FLOTA_PYTHONPATH"] = env["PYTHONPATH"]
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (SITE, env.get("PYTHONPATH"))))
    return spawn._replace(env=env)


@contextmanager
def _to_park(spawns: list[ProcessSpec]) -> Iterator[tuple[list[socket.socket], list[ProcessSpec]]]:
    """For each interpreter the link to it and its command, to be started inside. An error closes the links."""
    links: list[socket.socket] = []
    commands: list[ProcessSpec] = []
    with ExitStack() as always, ExitStack() as on_failure:
        for spawn in spawns:
            link, other = socket.socketpair()
            always.callback(other.close)
            on_failure.callback(link.close)
            # What imports print goes to memfds: every worker prints it.
            out = err = os.memfd_create("flota", os.MFD_CLOEXEC)
            if spawn.stdout != spawn.stderr:
                err = os.memfd_create("flota", os.MFD_CLOEXEC)
            for fd in {out, err}:
                always.callback(os.close, fd)
            command = spawn._replace(stdout=out, stderr=err, inherited_fds=(other.fileno(),))
            links.append(link)
            commands.append(with_site(command, FLOTA_PARK=str(other.fileno())))
        yield links, commands
        on_failure.pop_all()


class ForkTemplate:
    """One parked interpreter that workers are forked from. `link` becomes readable when it has sent a report, or is
    gone."""

    def __init__(self, spawns: list[ProcessSpec], modules: Sequence[str], learnt: Sequence[str]) -> None:
        env = common_variables([spawn.env for spawn in spawns])
        with _to_park([spawns[0]._replace(env=env)]) as ([self.link], [command]):
            become_subreaper()  # the shepherds that it forks are to be the node's children: they outlive a round
            self._pid = execute(command, own_session=True)
            assert isinstance(command.stderr, int)
            self._stderr = os.dup(command.stderr)
        send(self.link, import_request(spawns[0], modules, learnt))

    def fork(self, spawns: list[ProcessSpec], *, records: bool) -> tuple[int, int, int]:
        """As `fork_shepherd`, but the pid comes later, through the report pipe. If the template is gone, the pipe ends
        at once, and the workers start cold."""
        commands, command_end = os.pipe()
        report_end, reports = os.pipe()
        fds = [commands, reports]
        packed = pack(spawns, fds)
        message = {"do": "fork", "spawns": packed, "under_init": os.getpid() == 1, "records": records}
        send(self.link, message, fds)
        os.close(commands)
        os.close(reports)
        return 0, command_end, report_end

    def close(self) -> None:
        """It would exit on its own when the link ends, and leave to us what its imports have started."""
        kill_tree(self._pid)
        self.link.close()
        os.close(self._stderr)

    def last_line(self) -> str:
        """Of what it printed to stderr."""
        size = os.fstat(self._stderr).st_size
        lines = os.pread(self._stderr, 1 << 16, max(0, size - (1 << 16))).decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line), "")


class StandbyPool:
    """One parked interpreter for each worker of the next round, below a shepherd of their own. They import one after
    the other, as long as their memory together stays below the `limit`. One that has imported nothing is as good as a
    cold start."""

    def __init__(self, spawns: list[ProcessSpec], modules: Sequence[str], learnt: Sequence[str], limit: int) -> None:
        self.ready = 0  # interpreters whose imports are done
        self.asked = 0  # interpreters that were asked to import
        self._limit = limit
        self._largest = 0  # bytes that one takes
        self._requests = [import_request(spawn, modules, learnt, limit) for spawn in spawns]
        with _to_park(spawns) as (self.links, commands):
            self._shepherd = fork_shepherd(commands, own_session=True, close_fds=True)
        self._ask_next()

    def _ask_next(self) -> None:
        if self.asked < len(self.links) and (self.asked + 1) * self._largest <= self._limit:
            send(self.links[self.asked], self._requests[self.asked])
            self.asked += 1

    @property
    def too_large(self) -> str:
        """Why not even one of them may stay; empty when it may."""
        if self._largest <= self._limit:
            return ""
        return f"one takes {self._largest >> 20} MiB, and all may take {self._limit >> 20}"

    def read(self, number: int) -> dict[str, Any] | None:
        """The report of one of them, which has imported; None when it is gone."""
        received = receive(self.links[number])
        if received is None:
            return None
        self.ready += 1
        self._largest = max(self._largest, received[0]["memory"])
        self._ask_next()
        return received[0]

    def hand_over(self, spawns: list[ProcessSpec], *, records: bool) -> tuple[int, int, int]:
        """As `fork_shepherd`: from now on they are a round's workers."""
        for link, spawn in zip(self.links, spawns, strict=True):
            fds: list[int] = []
            packed = pack([spawn], fds)
            send(link, {"do": "run", "spawns": packed, "records": records}, fds)
        return self._shepherd

    @property
    def is_alive(self) -> bool:
        """All of them, and their shepherd: its reports are left for the round to read."""
        poll = select.poll()
        for fd in (self._shepherd[2], *(link.fileno() for link in self.links)):
            poll.register(fd, 0)
        return not poll.poll(0)

    def close(self) -> None:
        """Their shepherd ends with its command pipe, and ends them."""
        pid, commands, reports = self._shepherd
        os.close(commands)
        for link in self.links:
            link.close()
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass  # the node has reaped it as an orphan
        os.close(reports)
