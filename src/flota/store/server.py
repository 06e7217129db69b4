"""The embedded master: a key-value store with the API of etcd's v3 JSON gateway, in the node's event loop."""

from __future__ import annotations

import os
import socket
import time
from _operator import _compare_digest  # as in hmac, which loads OpenSSL
from collections.abc import Callable

from flota.store import etcd_json as etcd
from flota.store.http_server import MOST_CONNECTIONS, HttpServer
from flota.store.keys import puts_record
from flota.store.kv import KeyValueStore
from flota.store.server_connection import HttpRequest, ServerConnection, frame
from flota.store.server_watches import ServerWatches

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from flota.host.loop import Loop

BACKLOG = 4096
REPORT_INTERVAL = 1.0  # seconds between messages about strangers, doubled with each: they must not fill the log
LONGEST_REPORT_INTERVAL = 600.0
RECONNECT_TIME = 0.25  # seconds in which a client whose connections broke must renew its lease
LEASE_HEADER = b"x-flota-lease"  # names the lease that is shortened when the watch ends; etcd ignores it
LONGEST_LEASE_ID = 19  # digits
JOB_HEADER = b"x-flota-job"  # names the job of a client that only assumes that its master has this port
VERSION = b"3.4.0"  # clients choose the path of the API by it
STATUS = "/v3/maintenance/status"
REQUESTS = {path: kind for kind, (path, _) in etcd.ROUTES.items() if kind not in etcd.ONLY_ETCD}
REQUESTS["/v3/kv/lease/revoke"] = etcd.LeaseRevoke  # etcd's other path for the same request
# From gRPC codes to HTTP status, as in etcd's gateway.
HTTP_STATUS = {3: 400, 5: 404, 8: 429, 9: 400, 11: 400, 12: 501, 16: 401}


class Master(HttpServer):
    """Serves until `close`. The owner calls `on_time` when `deadline` has passed. Without a token all are peers.

    `job` names the job: clients that name another one are refused. `refuses_nodes`: why nodes cannot join here.
    `on_refused` is called with the address of a client with a wrong token, `on_full` when a client is turned away; both
    seldom, however often that happens.
    """

    def __init__(
        self,
        address: str,
        port: int,
        loop: Loop,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        on_refused: Callable[[str], object] = bool,
        on_full: Callable[[int], object] = bool,
        most_connections: int = MOST_CONNECTIONS,
        job: str = "",
    ) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, port), family=family, backlog=BACKLOG, reuse_port=False)
        self.port: int = listener.getsockname()[1]
        self._token = token.encode()
        self._job = job.encode()
        self.refuses_nodes = ""
        self._on_refused = seldom(on_refused)
        self.store = KeyValueStore(_new_lease_id)
        self.watches = ServerWatches()
        self._lease_connections: dict[int, int] = {}  # number of connections by lease
        super().__init__(listener, loop, tls, seldom(on_full), most_connections)

    @property
    def deadline(self) -> float | None:
        """When the next lease expires, or the next incomplete request times out."""
        return min((end for end in (self.store.deadline, self._slow.first) if end is not None), default=None)

    def on_time(self, now: float) -> None:
        super().on_time(now)
        self.store.expire(now)
        self.after_requests()

    def is_authorized(self, authorization: bytes) -> bool:
        return not self._token or _compare_digest(authorization, self._token)

    def encode_error(self, words: str) -> bytes:
        return etcd.encode_error(etcd.INVALID, words)

    def serve(self, connection: ServerConnection, request: HttpRequest, now: float) -> None:
        if request.headers.get(JOB_HEADER, self._job) != self._job:
            words = "this is the master of another job"
            connection.refuse(HTTP_STATUS[etcd.FAILED_PRECONDITION], etcd.encode_error(etcd.FAILED_PRECONDITION, words))
            return
        if not self.is_authorized(request.headers.get(b"authorization", b"")):
            self._on_refused(connection.address)
            words = "etcdserver: invalid auth token"
            connection.refuse(HTTP_STATUS[etcd.UNAUTHENTICATED], etcd.encode_error(etcd.UNAUTHENTICATED, words))
            return
        try:
            if request.method == "POST" and REQUESTS.get(request.path) is etcd.WatchRequest:
                self._begin_watch(connection, request)
            else:
                connection.answer(200, self._answer(request, now))
        except etcd.Refusal as refusal:
            connection.answer(HTTP_STATUS[refusal.code], etcd.encode_error(refusal.code, refusal.words))

    def _answer(self, http: HttpRequest, now: float) -> bytes:
        if (http.method, http.path) == ("GET", "/version"):
            return b'{"etcdserver":"%s","etcdcluster":"%s"}' % (VERSION, VERSION)
        if (http.method, http.path) == ("POST", STATUS):
            return b'{"header":%s,"version":"%s"}' % (etcd.encode(self.store.header()), VERSION)
        if http.method != "POST" or http.path not in REQUESTS:
            raise etcd.Refusal(etcd.UNIMPLEMENTED, f"{http.method} {http.path} is not supported by this store")
        request = etcd.decode(http.body, REQUESTS[http.path])
        if self.refuses_nodes and isinstance(request, etcd.Txn) and puts_record(request):
            raise etcd.Refusal(etcd.FAILED_PRECONDITION, self.refuses_nodes)
        answer = self.store.answer(request, now)
        return etcd.encode_streamed(answer) if isinstance(request, etcd.STREAMED) else etcd.encode(answer)

    def _begin_watch(self, connection: ServerConnection, http: HttpRequest) -> None:
        request = etcd.decode(http.body, etcd.WatchRequest)
        assert isinstance(request, etcd.WatchRequest)
        watch = request.create_request
        lease = http.headers.get(LEASE_HEADER, b"0")
        if not lease.isdigit() or len(lease) > LONGEST_LEASE_ID:
            raise etcd.Refusal(etcd.INVALID, "x-flota-lease is not a number")
        if 0 < watch.start_revision < self.watches.oldest:
            raise etcd.Refusal(etcd.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
        past = self.watches.add(connection, watch)
        connection.lease = int(lease)
        if connection.lease:
            self._lease_connections[connection.lease] = self._lease_connections.get(connection.lease, 0) + 1
        first = frame(etcd.encode_streamed(etcd.WatchAnswer(self.store.header(), created=True)))
        if past:
            first += frame(etcd.encode_streamed(etcd.WatchAnswer(self.store.header(), events=past)))
        connection.watch = watch
        connection.begin_stream(first)

    def after_requests(self) -> None:
        # Sending may reveal that a watcher is gone, and its lease with it, which causes more events.
        while events := self.store.take_events():
            for chosen, watchers in self.watches.publish(events):
                chunk = frame(etcd.encode_streamed(etcd.WatchAnswer(self.store.header(), events=chosen)))
                for watcher in list(watchers):
                    assert isinstance(watcher, ServerConnection)
                    watcher.send(chunk)
                    self.update(watcher)

    def on_dropped(self, connection: ServerConnection) -> None:
        if connection.watch:
            self.watches.remove(connection, connection.watch)
        lease = connection.lease
        others = self._lease_connections.pop(lease, 1) - 1
        if others:
            self._lease_connections[lease] = others
        elif lease and connection.ended_by_client:
            # A client that moves to another connection names its lease there first. So the end of the last one means
            # that the client is dead, or that its connection broke: then it renews the lease at once. A client that was
            # dropped because it did not read may be alive: its lease is not shortened.
            self.store.shorten(lease, time.monotonic() + RECONNECT_TIME)


def seldom(function: Callable[..., object]) -> Callable[..., None]:
    """Call the function at intervals that double, whatever the number of calls."""
    next_at, interval = 0.0, REPORT_INTERVAL

    def call(*arguments: object) -> None:
        nonlocal next_at, interval
        now = time.monotonic()
        if now >= next_at:
            next_at, interval = now + interval, min(2 * interval, LONGEST_REPORT_INTERVAL)
            function(*arguments)

    return call


def _new_lease_id() -> int:
    return int.from_bytes(os.urandom(8), "big") >> 1 or 1
