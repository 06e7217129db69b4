"""Where a node can be asked: a Unix socket for its user, and a TCP port for those who have the job's token.

A job that is never asked pays only for a socket: the server is imported when the first client connects.
"""

from __future__ import annotations

import time

from flota.host.unix_socket import listen

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    import ssl

    from flota.control.device_use import DeviceUse
    from flota.control.server import ControlServer
    from flota.run.node_watch import NodeWatch


FINISH_TIME = 1.0  # seconds: a slow reader does not keep a job from ending


class ControlDoor:
    def __init__(self, node: NodeWatch) -> None:
        self._node = node
        self._servers: list[ControlServer] = []
        self._device_use: DeviceUse | None = None  # from the first question on
        self.has_ended = False  # all output is in the logs
        self._listener = listen()
        if self._listener:
            node.loop.watch(self._listener.fileno(), self._open)

    def _open(self) -> None:
        assert self._listener is not None
        self._serve(self._listener, None)

    def listen_to_network(self, listener: _socket.socket, token: str, tls: ssl.SSLContext | None) -> None:
        self._node.loop.watch(listener.fileno(), lambda: self._serve(listener, token, tls))

    def _serve(self, listener: _socket.socket, token: str | None, tls: ssl.SSLContext | None = None) -> None:
        """Any stranger can connect, so an import that fails must not end the job: a package may be missing, and a file
        in the current directory may have the name of a module."""
        try:
            import socket

            from flota.control.server import ControlServer
        except Exception as error:
            self._node.loop.forget(listener.fileno())
            listener.close()
            why = f"{type(error).__name__}: {error}"
            self._node.console.say("WARNING", f"this node does not answer `flota ps` and other commands: {why}")
            return
        self._servers.append(ControlServer(self._node, socket.socket(fileno=listener.detach()), token, tls))

    @property
    def deadline(self) -> float | None:
        ends = [server.deadline for server in self._servers]
        ends += [self._device_use.deadline] if self._device_use else []
        return min((end for end in ends if end is not None), default=None)

    def on_time(self, now: float) -> None:
        for server in self._servers:
            server.on_time(now)
        if self._device_use:
            self._device_use.on_time(now)

    def use_of(self, devices: tuple[str, ...]) -> float | None:
        """How busy these devices are, in percent; None if it is unknown."""
        if self._device_use is None:
            from flota.control.device_use import DeviceUse

            self._device_use = DeviceUse(self._node)
        return self._device_use.of(devices)

    def finish(self) -> None:
        """Let those who follow a log see its end, if they read it at once."""
        self.has_ended = True
        give_up = time.monotonic() + FINISH_TIME
        while [server for server in self._servers if server.finish()] and time.monotonic() < give_up:
            self._node.loop.turn(FINISH_TIME / 10)

    def deliver(self) -> None:
        """Send results of questions to the whole job to those who have asked."""
        for server in self._servers:
            server.deliver()
