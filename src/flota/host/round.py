"""One round's processes as the node sees them: started, told and heard through the shepherd."""

from __future__ import annotations

import os
import time

from flota.host.ports import release
from flota.host.shepherd import Spawn, fork_shepherd
from flota.host.sweep import end_tree, reap_strangers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable

    from flota.supervise.events import Event


class Round:
    """`fd` becomes readable when something has happened to a worker."""

    def __init__(
        self,
        spawns: list[Spawn],
        held: list[socket],
        *,
        own_session: bool,
        farewell: Callable[[], object] | None = None,
    ) -> None:
        self._held = held
        self._rest = b""
        self._sweeping = False
        self.lost_shepherd = False
        self._shepherd, self._commands, self.fd = fork_shepherd(spawns, own_session=own_session, farewell=farewell)

    def send(self, word: str, worker: int, signal: int) -> None:
        """stop: to end by itself; kill: with its group; pass: no reason to end; suspend: the whole group."""
        try:
            os.write(self._commands, f"{word} {worker} {signal}\n".encode())
        except OSError:
            pass  # the shepherd is gone; its report pipe says so next

    def sweep(self) -> None:
        """End everything that is left of the round; it is done when `read` says so."""
        if self.lost_shepherd:
            end_tree()  # the shepherd's death has made its descendants ours
        else:
            self._sweeping = True
            self.send("over", 0, 0)  # so that what follows is not taken for the node's death
            os.close(self._commands)

    def reap_strangers(self) -> None:
        reap_strangers(self._shepherd)

    def read(self) -> list[Event]:
        """What has happened since the last call."""
        from flota.supervise.events import RoundSwept, ShepherdLost

        data = os.read(self.fd, 65536)
        if data:
            *lines, self._rest = (self._rest + data).split(b"\n")
            return [_event(line) for line in lines]
        if self.lost_shepherd or self._sweeping:
            self._close()
            return [RoundSwept()]
        _, status = os.waitpid(self._shepherd, 0)
        os.close(self._commands)
        self.lost_shepherd = True
        return [ShepherdLost(os.waitstatus_to_exitcode(status), time.monotonic())]

    def _close(self) -> None:
        if self._sweeping and os.waitpid(self._shepherd, 0)[1] != 0:
            end_tree()  # killed in the middle of its last work, which is ours now
        os.close(self.fd)
        release(self._held)


def _event(line: bytes) -> Event:
    from flota.supervise.events import StartFailed, WorkerExited, WorkerStarted

    word, *numbers = line.decode().split()
    at = float(numbers[-1])
    if word == "started":
        return WorkerStarted(int(numbers[0]), int(numbers[1]), at)
    if word == "failed":
        return StartFailed(int(numbers[0]), int(numbers[1]), at)
    return WorkerExited(int(numbers[0]), int(numbers[1]), numbers[2] == "1", at)
