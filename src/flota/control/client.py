"""Asks the nodes of a running job: one of them, or all at once."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from urllib.parse import quote, urlencode

from msgspec import Struct
from msgspec.json import Decoder

from flota.control.status import OFFSET, SPARE, Done, JobStatus, NodeLogs, NodePlace, NodeStatus, Problem, Status
from flota.errors import CannotAsk, NodeRefused
from flota.host.unix_socket import address_of, peer_of
from flota.job.printable import printable
from flota.job.roster import split_endpoint
from flota.logs.log_parts import MOST_READ
from flota.store.decoding import BadMessage, decode_json

Answer = TypeVar("Answer")

ANSWER_TIME = 5.0  # seconds: a node that does not answer in time is named, and the others' answers are shown
ASKED_AT_ONCE = 32
LARGEST = 64 << 20  # bytes of an answer
NO_ANSWER = "no answer"  # in time
DOES_NOT_LISTEN = (
    "it takes no requests from other machines; run the command there, or set FLOTA_TOKEN on all nodes at the next start"
)


class Access(Struct, frozen=True):
    """What a client needs to ask nodes over the network."""

    token: str = ""
    authority: str = ""  # the path of the CA certificate, if the job uses TLS
    derived: str = ""  # a CA certificate that was made from the token, in PEM


NO_ACCESS = Access()
# msgspec prepares a type when it is first used, and crashes if two threads do that at the same time: prepare all here.
for _kind in (Status, NodeLogs, Access, Done, Problem):
    Decoder(_kind)


class _UnixConnection(http.client.HTTPConnection):
    """To the node with this pid on this machine."""

    def __init__(self, pid: int) -> None:
        super().__init__("localhost", timeout=ANSWER_TIME)
        self.pid = pid

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(address_of(self.pid))
        if peer_of(self.sock) != (self.pid, os.getuid()):
            raise ConnectionRefusedError("another process or another user uses its address")


class NodeClient:
    """One node: `where` is the pid of a node on this machine, or an endpoint such as `10.0.0.2:41000`."""

    def __init__(self, where: int | str, access: Access = NO_ACCESS) -> None:
        self.where = f"process {where}" if isinstance(where, int) else where
        self.pid = where if isinstance(where, int) else 0  # 0: it is not known to be on this machine
        self._where = where
        self._access = access
        self._connection = _UnixConnection(where) if isinstance(where, int) else _connect(where, access)

    def status(self) -> Status:
        return self._decode(self._request("GET", "/v1/status")[0], Status)

    def access(self) -> Access:
        """For the other nodes. Only a node of this machine tells."""
        return self._decode(self._request("GET", "/v1/token")[0], Access)

    def act(self, verb: str) -> str:
        """Stop or restart the job, or let this node leave it. Returns what the node does, in words."""
        return printable(self._decode(self._request("POST", f"/v1/{verb}")[0], Done).message)

    def ask_job(self, kind: str, seconds: float) -> tuple[str, ...]:
        """Ask all nodes a question of the survey, through this one."""
        self._connection.timeout = seconds
        answer = self._decode(self._request("GET", f"/v1/ask?kind={quote(kind)}")[0], tuple[str, ...])
        return tuple(map(printable, answer))

    def logs(self, *, follow: bool = False) -> NodeLogs:
        """The logs of this node's ranks. `follow`: the node stays for a moment at its end, so that all can be read."""
        return self._decode(self._request("GET", f"/v1/logs?follow={int(follow)}")[0], NodeLogs)

    def log_part(self, role: str, rank: int, file: int, place: tuple[int, int], limit: int) -> bytes:
        """Bytes of one file of a log, from a place (inode and offset) on."""
        query = {"role": role, "rank": rank, "file": file, "inode": place[0], "offset": place[1], "limit": limit}
        return self._request("GET", f"/v1/log?{urlencode(query)}")[0]

    def log_times(self) -> bytes:
        """What this node has noted about its logs: see times.<node>.jsonl."""
        return self._read_file("/v1/log_times", {}, 0, LARGEST)[1]

    def log_from(self, role: str, rank: int, file: int, offset: int, most: int) -> tuple[int, bytes]:
        """At most so many bytes of a rank's log, and the offset at which they begin; a negative one is from the end."""
        return self._read_file("/v1/log", {"role": role, "rank": rank, "file": file}, offset, most)

    def events_from(self, offset: int, most: int) -> tuple[int, bytes]:
        """The same for this node's events file."""
        return self._read_file("/v1/events", {}, offset, most)

    def another(self) -> NodeClient:
        """A client with a connection of its own, for another thread."""
        return NodeClient(self._where, self._access)

    def close(self) -> None:
        self._connection.close()

    def _read_file(self, path: str, query: dict[str, object], offset: int, most: int) -> tuple[int, bytes]:
        """In as many parts as the node needs: a part that is not full is the last one."""
        parts: list[bytes] = []
        first, left = 0, most
        while left > 0:
            asked = min(left, MOST_READ)
            data, begins = self._request("GET", f"{path}?{urlencode({**query, 'offset': offset, 'limit': asked})}")
            if not begins.isdecimal() or not begins.isascii():
                raise CannotAsk(self.where, "it does not answer like a node of flota")
            if parts and int(begins) != offset:
                break  # the file was replaced
            first = first if parts else int(begins)
            parts.append(data)
            offset, left = int(begins) + len(data), left - len(data)
            if len(data) < asked:
                break
        return first, b"".join(parts)

    def _request(self, method: str, path: str) -> tuple[bytes, str]:
        """The body of the answer, and at which offset of a file it begins."""
        headers = {"Authorization": f"Bearer {self._access.token}"} if self._access.token else {}
        for last_try in (False, True):
            is_new = self._connection.sock is None
            try:
                self._connection.request(method, path, headers=headers)
                answer = self._connection.getresponse()
                body = answer.read(LARGEST)
                break
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._connection.close()
                # A connection that was idle may have been dropped.
                if is_new or last_try or method != "GET" or isinstance(error, TimeoutError):
                    raise CannotAsk(self.where, _in_words(error)) from None
        if answer.status != http.client.OK:
            problem = self._decode(body, Problem).error
            raise NodeRefused(self.where, printable(problem))
        return body, answer.getheader(OFFSET, "")

    def _decode(self, body: bytes, kind: type[Answer]) -> Answer:
        try:
            return decode_json(body, kind)
        except BadMessage:
            raise CannotAsk(self.where, "it does not answer like a node of flota") from None


def _in_words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return NO_ANSWER
    return str(getattr(error, "strerror", None) or error or type(error).__name__).lower()


def _connect(where: str, access: Access) -> http.client.HTTPConnection:
    scheme, _, rest = where.rpartition("://")
    host, port = split_endpoint(rest)
    if not port.isdecimal():
        raise CannotAsk(where, "expected HOST:PORT")
    if scheme == "https":
        try:
            context = ssl.create_default_context(cafile=access.authority or None)
            if access.derived:
                context.load_verify_locations(cadata=access.derived)
        except OSError as error:
            raise CannotAsk(where, f"cannot read {access.authority}: {error}") from None
        return http.client.HTTPSConnection(host, int(port), timeout=ANSWER_TIME, context=context)
    return http.client.HTTPConnection(host, int(port), timeout=ANSWER_TIME)


class JobAnswer(Struct, frozen=True):
    """The status of a job and of its nodes in order of their seats. `missing`: hosts that did not answer, and why.
    `seat`: that of the node whose view of the job, and whose clock, this is."""

    job: JobStatus
    nodes: tuple[NodeStatus, ...]
    missing: tuple[tuple[str, str], ...] = ()
    seat: int = 0


class JobClient:
    """All nodes of a job, found through one of them."""

    def __init__(self, entry: NodeClient, access: Access | None = None) -> None:
        self.entry = entry
        self._access = access
        self._clients: dict[str, NodeClient] = {}  # by endpoint
        self._places: tuple[NodePlace, ...] = ()  # of the last answer

    def another(self) -> JobClient:
        """A client with connections of its own, for another thread."""
        return JobClient(self.entry.another(), self._access)

    def use_another_entry(self) -> bool:
        """Go on through another node of the job, because the entry does not answer. Returns whether one answers."""
        for place in self._places:
            if place.endpoint and self._access and place.endpoint != self.entry.where:
                client = NodeClient(place.endpoint, self._access)
                try:
                    client.status()
                except CannotAsk:
                    continue
                self.entry = client
                return True
        return False

    def status(self) -> JobAnswer:
        first = self.entry.status()
        self._places = first.job.nodes
        others = [place for place in first.job.nodes if place.seat != first.node.seat]
        if any(place.endpoint for place in others) and self._access is None:
            self._access = self.entry.access()  # here, because threads cannot share the connection
        with ThreadPoolExecutor(min(ASKED_AT_ONCE, len(others) or 1)) as pool:
            answers = list(pool.map(self._ask, others))
        own = [first.node] if first.node.state != SPARE else []  # which `job` names
        found = [*own, *(one for one in answers if isinstance(one, NodeStatus))]
        missing = [
            (place.host, str(why))
            for place, why in zip(others, answers, strict=True)
            if not isinstance(why, NodeStatus)
        ]
        return JobAnswer(first.job, tuple(sorted(found, key=lambda node: node.seat)), tuple(missing), first.node.seat)

    def _ask(self, place: NodePlace) -> NodeStatus | str:
        try:
            return self.node(place).status().node
        except CannotAsk as error:
            return error.why

    def node(self, place: NodePlace) -> NodeClient:
        """A client for one node: kept, because a viewer asks again and again."""
        if not place.endpoint:
            raise CannotAsk(place.host, DOES_NOT_LISTEN)
        if self._access is None:
            self._access = self.entry.access()
        if place.endpoint not in self._clients:
            self._clients[place.endpoint] = NodeClient(place.endpoint, self._access)
        return self._clients[place.endpoint]

    def working_node(self) -> NodeClient:
        """A node that can act on the whole job: the entry, or if that is a spare, one with a seat that answers."""
        status = self.entry.status()
        if status.node.state != SPARE:
            return self.entry
        problem = CannotAsk(self.entry.where, "it is a spare, and knows no node of the job")
        for place in status.job.nodes:
            try:
                self.node(place).status()
            except CannotAsk as error:
                problem = error
            else:
                return self.node(place)
        raise problem

    def close(self) -> None:
        for client in (self.entry, *self._clients.values()):
            client.close()

    def client_of(self, seat: int) -> NodeClient:
        status = self.entry.status()
        if status.node.seat == seat:
            return self.entry
        for place in status.job.nodes:
            if place.seat == seat:
                return self.node(place)
        raise CannotAsk(f"node {seat}", "it has left the job")


def local_nodes() -> list[int]:
    """The pids of the nodes of all users on this machine."""
    prefix = "@" + address_of(0)[1:-1].decode()
    try:
        with open("/proc/net/unix") as file:
            names = [line.split()[-1] for line in file]
    except OSError:
        return []
    pids = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
    return sorted(int(pid) for pid in pids if pid.isdecimal() and os.path.exists(f"/proc/{pid}"))
