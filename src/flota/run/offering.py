"""Fresh ports for each round, held from the moment that they are offered: the roster promises them to everybody."""

from __future__ import annotations

import os
import time

from flota.errors import FlotaError, PortInUse
from flota.host.ports import release
from flota.run.start import hold_ports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

    from flota.run.together import Together

LOOK_AGAIN = 0.1  # seconds between looks whether a port is free: nothing tells of it


class Offering:
    """`deadline`: when to try once more, where ports were not free."""

    def __init__(self, together: Together) -> None:
        self.together = together
        self.deadline: float | None = None
        self._held: list[socket] = []
        self._round = 0
        self._give_up_at: float | None = None

    def on_time(self, now: float) -> None:
        if self.deadline is not None and now >= self.deadline:
            self.deadline = None
            self.offer(self._round)

    def offer(self, round_number: int) -> None:
        self.release()
        node = self.together.member.node
        try:
            self._held, ports = hold_ports(self.together.spec)
        except FlotaError as error:
            if self.together.has_not_begun():
                raise  # a mistake of this node's user, not of the job
            if not isinstance(error, PortInUse) or not self._may_wait(round_number, error.message):
                node.cannot_go_on(f"{os.uname().nodename}: {error.message}")
            return
        self.deadline = self._give_up_at = None
        numbers = (*ports.workers, ports.torch, ports.paddle, ports.jax)
        node.offered(tuple(int(number) for number in numbers), round_number)

    def _may_wait(self, round_number: int, words: str) -> bool:
        """A port that the user has chosen may still be somebody's for a moment."""
        now = time.monotonic()
        if self._give_up_at is None:
            self.together.console.say("INFO", f"{words}; the restart waits for it")
            self._give_up_at = now + self.together.spec.join_timeout
        may_wait = now < self._give_up_at
        self.deadline, self._round = now + LOOK_AGAIN if may_wait else None, round_number
        return may_wait

    def hand_over(self) -> list[socket]:
        """To the round that begins."""
        held, self._held = self._held, []
        return held

    def release(self) -> None:
        release(self.hand_over())
