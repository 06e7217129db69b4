"""A Unix socket through which a user of this machine asks the whole job a question, as `flota stack` does.

It is an abstract socket, for root and the user of this job only. The client sends the kind of the question on one line,
and receives the lines of the result.
"""

from __future__ import annotations

import os
import socket

from flota.cluster.questions import ON_REQUEST
from flota.hangs.running_job import address_of, peer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode

MAX_CLIENTS = 8  # that wait for a result; one more replaces the first
LONGEST_KIND = 64


class RequestSocket:
    def __init__(self, node: MultiNode) -> None:
        self.node = node
        self._clients: dict[socket.socket, tuple[str, int]] = {}  # kind of the result, and an id below it
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.settimeout(0)
        try:
            self._server.bind(address_of(os.getpid()))
            self._server.listen(MAX_CLIENTS)
        except OSError:
            return  # no /proc, or the name is taken: then there are no requests
        node.loop.watch(self._server.fileno(), self._on_connected)

    def _on_connected(self) -> None:
        try:
            client, _ = self._server.accept()
        except OSError:
            return
        client.setblocking(False)  # noqa: FBT003
        if peer_of(client)[1] not in (0, os.getuid()):
            client.close()
            return
        if len(self._clients) == MAX_CLIENTS:
            self._drop(next(iter(self._clients)))
        self._clients[client] = "", 0
        self.node.loop.watch(client.fileno(), lambda: self._on_readable(client))

    def _on_readable(self, client: socket.socket) -> None:
        """Read the kind of its question, or the end of the connection."""
        try:
            kind = client.recv(LONGEST_KIND).decode(errors="replace").strip()
        except OSError:
            kind = ""
        is_first = not self._clients[client][0]
        after = self.node.follower.request(kind) if is_first and kind in ON_REQUEST else None
        if after is None:
            self._drop(client)
        else:
            self._clients[client] = kind, after
            self.node.advance()

    def deliver(self) -> None:
        """Send the result to the clients that wait for it. If the round has ended, close their connections."""
        job_state = self.node.follower.job_state
        for client, (kind, after) in list(self._clients.items()):
            result = job_state.results.get(kind) if job_state else None
            if result is not None and result.id > after:
                try:
                    client.send("\n".join(result.lines).encode())
                except OSError:
                    pass  # it has closed the connection; a few lines fit into any socket buffer
                self._drop(client)
            elif not self.node.in_round:
                self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        self.node.loop.forget(client.fileno())
        del self._clients[client]
        client.close()

    def close(self) -> None:
        self.node.loop.forget(self._server.fileno())
        self._server.close()
        for client in list(self._clients):
            self._drop(client)
