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

MOST = 8  # users that wait for a result at a time; the first makes room for one more
LONGEST_KIND = 64


class RequestSocket:
    def __init__(self, node: MultiNode) -> None:
        self.node = node
        self._askers: dict[socket.socket, tuple[str, int]] = {}  # for a result of this kind, above this number
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
        if peer_of(asker)[1] not in (0, os.getuid()):
            asker.close()
            return
        if len(self._askers) == MOST:
            self._drop(next(iter(self._askers)))
        self._askers[asker] = "", 0
        self.node.loop.watch(asker.fileno(), lambda: self._on_readable(asker))

    def _on_readable(self, asker: socket.socket) -> None:
        """The kind of its question, or its end."""
        try:
            kind = asker.recv(LONGEST_KIND).decode(errors="replace").strip()
        except OSError:
            kind = ""
        is_first = not self._askers[asker][0]
        after = self.node.follower.request(kind) if is_first and kind in ON_REQUEST else None
        if after is None:
            self._drop(asker)
        else:
            self._askers[asker] = kind, after
            self.node.advance()

    def deliver(self) -> None:
        """To those that wait, when all nodes have answered; nothing, when the round has ended before."""
        job_state = self.node.follower.job_state
        for asker, (kind, after) in list(self._askers.items()):
            result = job_state.results.get(kind) if job_state else None
            if result is not None and result.id > after:
                try:
                    asker.send("\n".join(result.lines).encode())
                except OSError:
                    pass  # it has gone; a few lines fit into any socket's buffer
                self._drop(asker)
            elif not self.node.in_round:
                self._drop(asker)

    def _drop(self, asker: socket.socket) -> None:
        self.node.loop.forget(asker.fileno())
        del self._askers[asker]
        asker.close()

    def close(self) -> None:
        self.node.loop.forget(self._server.fileno())
        self._server.close()
        for asker in list(self._askers):
            self._drop(asker)
