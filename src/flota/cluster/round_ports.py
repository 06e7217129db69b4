"""Fresh ports for each round, held from the moment that they are offered: the roster promises them to everybody."""

from __future__ import annotations

import os
import time

from flota.errors import FlotaError
from flota.host.ports import release
from flota.run.worker_ports import PortWait, hold_ports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

    from flota.cluster.multi_node import MultiNode


class RoundPorts:
    """`deadline`: when to try once more, where ports were not free."""

    def __init__(self, multi_node: MultiNode) -> None:
        self.multi_node = multi_node
        self.deadline: float | None = None
        self._held: list[socket] = []
        self._round = 0
        self._wait = PortWait(multi_node.console, multi_node.spec.join_timeout)

    def on_time(self, now: float) -> None:
        if self.deadline is not None and now >= self.deadline:
            self.deadline = None
            self.offer(self._round)

    def offer(self, round_number: int) -> None:
        self.release()
        node = self.multi_node.follower
        try:
            self._held, ports = hold_ports(self.multi_node.spec)
        except FlotaError as error:
            if self.multi_node.has_not_begun():
                raise  # a mistake of this node's user, not of the job
            self.deadline, self._round = self._wait.next_try(error, time.monotonic()), round_number
            if self.deadline is None:
                node.cannot_go_on(f"{os.uname().nodename}: {error.message}")
            return
        self.deadline = None
        self._wait.end()
        node.offered(ports, round_number)

    def hand_over(self) -> list[socket]:
        """To the round that begins."""
        held, self._held = self._held, []
        return held

    def release(self) -> None:
        release(self.hand_over())
