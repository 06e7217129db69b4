"""One parked interpreter for each worker of the next round, below a shepherd of their own."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from flota.host.process_start import ProcessSpec
from flota.host.shepherd import fork_shepherd
from flota.standby.parked_command import close_output, parked_command
from flota.standby.parked_protocol import import_request, pack, receive, send


class StandbyPool:
    """The interpreters import one after the other, as long as their memory together stays below the `limit`. One that
    has imported nothing is as good as a cold start."""

    def __init__(
        self, spawns: list[ProcessSpec], modules: Sequence[str], learnt: Sequence[str], limit: int, *, patient: bool
    ) -> None:
        self.ready = 0  # interpreters whose imports are done
        self._limit = limit
        self._largest = 0  # bytes that one takes
        self.asked = 0  # interpreters that were asked to import
        self._patient = patient
        self._requests = [import_request(spawn, modules, learnt, limit=limit, patient=patient) for spawn in spawns]
        self.links: list[socket.socket] = []
        self._shepherd = self._start(spawns)
        self._ask_next()

    def _start(self, spawns: list[ProcessSpec]) -> tuple[int, int, int]:
        commands: list[ProcessSpec] = []
        with ExitStack() as always, ExitStack() as on_failure:
            for spawn in spawns:
                link, other = socket.socketpair()
                always.callback(other.close)
                on_failure.callback(link.close)
                self.links.append(link)
                commands.append(parked_command(spawn, other.fileno()))
                always.callback(close_output, commands[-1])
            shepherd = fork_shepherd(commands, own_session=True, close_fds=True)
            on_failure.pop_all()
        return shepherd

    def _ask_next(self) -> None:
        """One at a time if they can wait; otherwise, once it is known how much memory one takes, all at once."""
        while self.asked < len(self.links) and (self.asked + 1) * self._largest <= self._limit:
            if self.asked > self.ready and (self._patient or not self.ready):
                return
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
