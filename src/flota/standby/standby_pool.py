"""One parked interpreter for each worker of the next round, below a shepherd that waits for it, too."""

from __future__ import annotations

import os
import select
import socket
from contextlib import ExitStack

from flota.host.process_start import ProcessSpec
from flota.host.shepherd import fork_shepherd
from flota.standby.fork_template import close_sayings, import_order, parking
from flota.standby.parked_protocol import pack, receive, send

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Spares:
    """They import one after the other, as long as their memory stays below the `limit`; those that have not imported
    anything are as good as a cold start."""

    def __init__(self, spawns: list[ProcessSpec], wish: dict[str, Any], limit: int, *, patient: bool) -> None:
        self.limit = limit
        self.ready = 0
        self.largest = 0  # bytes that one takes
        self.given_up = ""
        self._orders = [
            import_order([spawn], {**wish, "limit": limit}, forks=False, patient=patient) for spawn in spawns
        ]
        self.links: list[socket.socket] = []
        self._shepherd = self._start(spawns)
        self._told = 0
        self._patient = patient
        self._tell_next()

    def _start(self, spawns: list[ProcessSpec]) -> tuple[int, int, int]:
        parked: list[ProcessSpec] = []
        with ExitStack() as after, ExitStack() as if_it_fails:
            for spawn in spawns:
                link, other = socket.socketpair()
                after.callback(other.close)
                if_it_fails.callback(link.close)
                self.links.append(link)
                parked.append(parking(spawn, other.fileno()))
                after.callback(close_sayings, parked[-1])
            shepherd = fork_shepherd(parked, own_session=True, close_fds=True)
            if_it_fails.pop_all()
        return shepherd

    def _tell_next(self) -> None:
        """One at a time where it can wait; otherwise, once it is known how much one takes, all at once."""
        while self._told < len(self.links) and self._has_room and (self._told == self.ready or not self._patient):
            try:
                send(self.links[self._told], self._orders[self._told])
            except OSError:
                pass  # it is gone, which reading says next
            self._told += 1
            if not self.ready:
                return

    @property
    def _has_room(self) -> bool:
        return (self._told + 1) * self.largest <= self.limit

    @property
    def is_done(self) -> bool:
        return self.ready == self._told

    def read(self, slot: int) -> dict[str, Any] | None:
        """What one of them says; None when it is gone."""
        got = receive(self.links[slot])
        if got is None:
            return None
        said = got[0]
        self.ready += 1
        self.largest = max(self.largest, said["memory"])
        if self.largest > self.limit:
            self.given_up = f"one takes {self.largest >> 20} MiB, and all may take {self.limit >> 20}"
        self._tell_next()
        return said

    def hand_over(self, spawns: list[ProcessSpec], *, records: bool) -> tuple[int, int, int]:
        """As `fork_shepherd`: from now on they are a round's workers."""
        for link, spawn in zip(self.links, spawns, strict=True):
            streams: list[int] = []
            (packed,) = pack([spawn], streams)
            try:
                send(link, {"do": "run", "spawn": packed, "records": records}, streams)
            except OSError:
                pass  # it is gone, and the shepherd has said so
        return self._shepherd

    @property
    def are_alive(self) -> bool:
        """All of them, and their shepherd: what that has said is left for the round to read."""
        poll = select.poll()
        for fd in (self._shepherd[2], *(link.fileno() for link in self.links)):
            poll.register(fd, 0)
        return not poll.poll(0)

    def close(self) -> None:
        """Not needed any more: their shepherd takes them along."""
        pid, commands, reports = self._shepherd
        os.close(commands)
        for link in self.links:
            link.close()
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass  # reaped as a stranger
        os.close(reports)
