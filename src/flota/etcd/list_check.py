"""Whether the members on other hosts were started with the same list as this one.

etcd computes the id of a cluster from the texts of the list. Members with different ids never form a majority: they
wait, and answer no client. But each says its id at its second port. Asking may take long, so it is done in a thread.
"""

from __future__ import annotations

import http.client
import os
import ssl
from collections.abc import Callable, Iterable

from flota.etcd.member_flags import peer_place
from flota.host.loop import Loop
from flota.job.nodes import Place

PATIENCE = 1.0  # seconds for one answer
CLUSTER_ID = "X-Etcd-Cluster-Id"


class ListCheck:
    """One check. Calls `on_other` with a place whose member belongs to another list."""

    def __init__(
        self,
        own: Place,
        others: Iterable[Place],
        tls: ssl.SSLContext | None,
        loop: Loop,
        on_other: Callable[[Place], object],
    ) -> None:
        import _thread

        self._loop, self._on_other = loop, on_other
        self._other: Place | None = None
        self._end, writer = os.pipe()
        loop.watch(self._end, self._on_end)
        try:
            _thread.start_new_thread(self._compare, (own, tuple(others), tls, writer))
        except RuntimeError:  # too many threads
            os.close(writer)

    @property
    def is_done(self) -> bool:
        return self._end < 0

    def close(self) -> None:
        if self._end >= 0:
            self._loop.forget(self._end)
            os.close(self._end)
            self._end = -1

    def _on_end(self) -> None:
        self.close()
        if self._other:
            self._on_other(self._other)

    def _compare(self, own: Place, others: tuple[Place, ...], tls: ssl.SSLContext | None, writer: int) -> None:
        if own_id := ask_cluster_id(own, tls):
            self._other = next((place for place in others if ask_cluster_id(place, tls) not in ("", own_id)), None)
        try:
            os.write(writer, b".")  # closing it is not enough: a process forked meanwhile has it as well
        except OSError:
            pass  # closed meanwhile
        os.close(writer)


def ask_cluster_id(place: Place, tls: ssl.SSLContext | None) -> str:
    """Empty if it does not answer."""
    host, port = peer_place(place)
    client = (
        http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=tls)
        if tls
        else http.client.HTTPConnection(host, port, timeout=PATIENCE)
    )
    try:
        client.request("GET", "/members")
        return client.getresponse().getheader(CLUSTER_ID, "")
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        client.close()
