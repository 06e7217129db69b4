"""Lets a user of this machine ask the whole job something, as `flota stack` does: this node passes the question on.

Asked through a socket that has no file, and by this job's user or root alone: the kind of the question on one line, and
the result's lines as an answer.
"""

from __future__ import annotations

import os
import socket

from flota.cluster.questions import ON_REQUEST
from flota.hangs.command import address_of, peer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode

MOST = 8  # users who wait for a result at a time
LONGEST_KIND = 64


class RequestSocket:
    def __init__(self, node: MultiNode) -> None:
        self.node = node
        self._waiting: list[tuple[str, int, socket.socket]] = []  # for a result of this kind, above this number
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.settimeout(0)
        try:
            self._server.bind(address_of(os.getpid()))
            self._server.listen(MOST)
        except OSError:
            return  # no /proc, or the name is taken: then nobody can ask
        node.loop.watch(self._server.fileno(), self._on_asked)

    def _on_asked(self) -> None:
        try:
            asker, _ = self._server.accept()
        except OSError:
            return
        asker.setblocking(False)  # noqa: FBT003
        _, user = peer_of(asker)
        if user not in (0, os.getuid()) or len(self._waiting) >= MOST:
            asker.close()
            return
        self.node.loop.watch(asker.fileno(), lambda: self._on_kind(asker))

    def _on_kind(self, asker: socket.socket) -> None:
        self.node.loop.forget(asker.fileno())
        try:
            kind = asker.recv(LONGEST_KIND).decode(errors="replace").strip()
        except OSError:
            kind = ""
        after = self.node.follower.request(kind) if kind in ON_REQUEST else None
        if after is None or len(self._waiting) >= MOST:
            asker.close()
            return
        self._waiting.append((kind, after, asker))
        self.node.advance()

    def deliver(self) -> None:
        """To those who wait, when all nodes have answered, or the round has ended."""
        job_state = self.node.follower.job_state
        for waiting in list(self._waiting):
            kind, after, asker = waiting
            result = job_state.results.get(kind) if job_state else None
            if result and result.id > after:
                self._waiting.remove(waiting)
                _send(asker, "\n".join(result.lines))
            elif not self.node.in_round:
                self._waiting.remove(waiting)
                asker.close()

    def close(self) -> None:
        self.node.loop.forget(self._server.fileno())
        self._server.close()
        for _, _, asker in self._waiting:
            asker.close()


def _send(asker: socket.socket, text: str) -> None:
    """A few lines, which fit into any socket's buffer."""
    try:
        asker.send(text.encode())
    except OSError:
        pass  # it has gone
    asker.close()
