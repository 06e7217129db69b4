"""Lets a user of this machine ask the whole job something, as `flota stack` does: this node passes the question on.

The socket has no file, and only this job's user or root may ask: the kind of the question on one line, and the result's
lines as an answer.
"""

from __future__ import annotations

import os
import socket

from flota.cluster.questions import ON_REQUEST
from flota.hangs.running_job import address_of, peer_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode

MOST = 8  # users that wait for a result at a time
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
            return  # no /proc, or the name is taken: then users cannot ask
        node.loop.watch(self._server.fileno(), self._on_asked)

    def _on_asked(self) -> None:
        try:
            asker, _ = self._server.accept()
        except OSError:
            return
        asker.setblocking(False)  # noqa: FBT003
        _, user = peer_of(asker)
        if user in (0, os.getuid()):
            self.node.loop.watch(asker.fileno(), lambda: self._on_kind(asker))
        else:
            asker.close()

    def _on_kind(self, asker: socket.socket) -> None:
        self.node.loop.forget(asker.fileno())
        try:
            kind = asker.recv(LONGEST_KIND).decode(errors="replace").strip()
        except OSError:
            kind = ""
        is_known = kind in ON_REQUEST and len(self._waiting) < MOST
        after = self.node.follower.request(kind) if is_known else None
        if after is None:
            asker.close()
        else:
            self._waiting.append((kind, after, asker))
            self.node.advance()

    def deliver(self) -> None:
        """To those that wait, when all nodes have answered; nothing, when the round has ended before."""
        job_state = self.node.follower.job_state
        for waiting in list(self._waiting):
            kind, after, asker = waiting
            result = job_state.results.get(kind) if job_state else None
            has_result = result is not None and result.id > after
            if has_result or not self.node.in_round:
                self._waiting.remove(waiting)
                try:
                    asker.send("\n".join(result.lines if result and has_result else ()).encode())
                except OSError:
                    pass  # it has gone; a few lines fit into any socket's buffer
                asker.close()

    def close(self) -> None:
        self.node.loop.forget(self._server.fileno())
        self._server.close()
        for _, _, asker in self._waiting:
            asker.close()
