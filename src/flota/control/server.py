"""Answers questions about this node and its job, over a Unix socket or over TCP: see docs/reference/control.md."""

from __future__ import annotations

import hmac
import os
import socket
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import msgspec

from flota.control.node_status import logs_of, node_logs, node_status
from flota.control.requests import CannotDo, JobRequests
from flota.control.status import OFFSET, Done, Problem
from flota.host.unix_socket import peer_of
from flota.logs.log_parts import MOST_READ, read_from, read_part
from flota.logs.log_times import times_file
from flota.store.http_server import HttpServer
from flota.store.server_connection import HttpRequest, ServerConnection

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from flota.run.node_watch import NodeWatch

MOST_CONNECTIONS = 64  # of people and their tools
STRANGERS_MEMORY = 1 << 20  # bytes
BEARER = b"Bearer "
BYTES = "application/octet-stream"
MOST_DIGITS = 20  # of an inode
LAST_OFFSET = (1 << 62) - 1
LONGEST_KIND = 64


class RefusedRequest(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, words: str) -> None:
        self.status = status
        self.words = words


class ControlServer(HttpServer):
    """`token`: required in each request; None on a Unix socket, which only the user of this job can connect to."""

    strangers_memory = STRANGERS_MEMORY

    def __init__(
        self, node: NodeWatch, listener: socket.socket, token: str | None, tls: ssl.SSLContext | None = None
    ) -> None:
        self._node = node
        self._token = BEARER + token.encode() if token is not None else None
        self._asked: dict[ServerConnection, tuple[str, int]] = {}  # kind of the result, and an id below it
        self._followers: set[ServerConnection] = set()  # they ask for logs again and again, until the job has ended
        super().__init__(listener, node.loop, tls, most_connections=MOST_CONNECTIONS)

    # Who may ask.

    def accepts(self, sock: socket.socket) -> bool:
        return sock.family != socket.AF_UNIX or peer_of(sock)[1] in (0, os.getuid())

    def is_authorized(self, authorization: bytes) -> bool:
        return self._token is None or hmac.compare_digest(authorization, self._token)

    def encode_error(self, words: str) -> bytes:
        return msgspec.json.encode(Problem(words))

    # Answers.

    def serve(self, connection: ServerConnection, request: HttpRequest, _now: float) -> None:
        if not self.is_authorized(request.headers.get(b"authorization", b"")):
            connection.refuse(401, self.encode_error("the request does not have the job's token"))
            return
        try:
            url = urlsplit(request.path)
            query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        except ValueError as error:
            connection.answer(400, self.encode_error(f"invalid path: {error}"))
            return
        answer = ANSWERS.get((request.method, url.path))
        try:
            if answer is None:
                raise RefusedRequest(404, f"{request.method} {url.path} is not supported")
            answer(self, connection, query)
        except RefusedRequest as refused:
            connection.answer(refused.status, self.encode_error(refused.words))

    def answer_status(self, connection: ServerConnection, _query: dict[str, str]) -> None:
        connection.answer(200, msgspec.json.encode(node_status(self._node)))

    def answer_token(self, connection: ServerConnection, _query: dict[str, str]) -> None:
        """With it, a command of this user can ask the other nodes."""
        if self._token is not None:
            raise RefusedRequest(404, "the token is not sent over the network")
        access = {"token": self._node.requests.token, "authority": self._node.requests.authority}
        connection.answer(200, msgspec.json.encode(access))

    def answer_log(self, connection: ServerConnection, query: dict[str, str]) -> None:
        self._answer_file(connection, self._log_of(query), query)

    def _answer_file(self, connection: ServerConnection, path: str, query: dict[str, str]) -> None:
        """A part of a file, and where it begins. With `inode`: of a file of the log that may have been rotated."""
        inode, offset, limit = query.get("inode", ""), query.get("offset", "0"), query.get("limit", str(MOST_READ))
        if not all(
            text.isdecimal() and len(text) <= MOST_DIGITS for text in (inode or "0", offset.removeprefix("-"), limit)
        ):
            raise RefusedRequest(400, "invalid inode, offset or limit")
        at, most = max(-LAST_OFFSET, min(int(offset), LAST_OFFSET)), min(int(limit), MOST_READ)
        try:
            begins, data = (at, read_part(path, int(inode), max(at, 0), most)) if inode else read_from(path, at, most)
        except OSError as error:
            raise RefusedRequest(404, f"cannot read {path}: {error.strerror}") from None
        connection.answer(200, data, BYTES, f"{OFFSET}: {begins}\r\n")

    def _log_of(self, query: dict[str, str]) -> str:
        role, rank, file = query.get("role", "trainer"), query.get("rank", ""), query.get("file", "0")
        workers = [plan.worker for plan in self._node.started.plans] if self._node.evidence.rounds else []
        number = next((at for at, one in enumerate(workers) if (one.name, str(one.rank)) == (role, rank)), None)
        logs = () if number is None else logs_of(self._node, number)
        if file not in map(str, range(len(logs))):
            raise RefusedRequest(404, f"this node has no log of {role} {rank}")
        return logs[int(file)]

    def answer_logs(self, connection: ServerConnection, query: dict[str, str]) -> None:
        if query.get("follow") == "1":
            self._followers.add(connection)
        connection.answer(200, msgspec.json.encode(node_logs(self._node)))

    def answer_log_times(self, connection: ServerConnection, query: dict[str, str]) -> None:
        path = times_file(self._node.spec.log.directory, os.uname().nodename)
        self._answer_file(connection, path, query)

    def answer_events(self, connection: ServerConnection, query: dict[str, str]) -> None:
        path = f"{self._node.spec.log.directory}/events.{os.uname().nodename}.jsonl"
        self._answer_file(connection, path, query)

    def answer_question(self, connection: ServerConnection, query: dict[str, str]) -> None:
        """Ask all nodes of the job. The answer follows when they have answered."""
        kind = query.get("kind", "")
        after = self._node.requests.ask(kind)
        if after is None:
            raise RefusedRequest(409, f"this job cannot be asked `{kind[:LONGEST_KIND]}` now")
        self._asked[connection] = kind, after

    def deliver(self) -> None:
        for connection, (kind, after) in list(self._asked.items()):
            result = self._node.requests.result_of(kind)
            if result is not None and result.id > after:
                connection.answer(200, msgspec.json.encode(result.lines))
            elif self._node.in_round:
                continue
            else:
                connection.answer(409, self.encode_error("the round has ended"))
            del self._asked[connection]
            self.update(connection)

    def act(self, connection: ServerConnection, act: Callable[[JobRequests], str]) -> None:
        try:
            connection.answer(200, msgspec.json.encode(Done(act(self._node.requests))))
        except CannotDo as error:
            raise RefusedRequest(409, str(error)) from None

    def finish(self) -> bool:
        """Returns whether some who follow logs have not seen their ends yet: they close their connections then."""
        return bool(self._followers)

    def after_requests(self) -> None:
        pass

    def on_dropped(self, connection: ServerConnection) -> None:
        self._asked.pop(connection, None)
        self._followers.discard(connection)


ANSWERS: dict[tuple[str, str], Callable[[ControlServer, ServerConnection, dict[str, str]], None]] = {
    ("GET", "/v1/status"): ControlServer.answer_status,
    ("GET", "/v1/token"): ControlServer.answer_token,
    ("GET", "/v1/log"): ControlServer.answer_log,
    ("GET", "/v1/log_times"): ControlServer.answer_log_times,
    ("GET", "/v1/logs"): ControlServer.answer_logs,
    ("GET", "/v1/events"): ControlServer.answer_events,
    ("GET", "/v1/ask"): ControlServer.answer_question,
    ("POST", "/v1/stop"): lambda server, connection, _: server.act(connection, lambda job: job.stop()),
    ("POST", "/v1/restart"): lambda server, connection, _: server.act(connection, lambda job: job.restart()),
    ("POST", "/v1/leave"): lambda server, connection, _: server.act(connection, lambda job: job.leave()),
}
