"""Serves the page to browsers, and metrics to Prometheus: a thread for each connection, and a limited number of them.

Everyone may load the page itself, which holds no data. All else needs the token: see docs/decisions/0057-the-page.md.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from flota.dashboard.folding import clean_lines, fold
from flota.dashboard.job_source import JobSource, NotThere
from flota.dashboard.request_checks import HEADERS, is_own_host, is_same_origin, read_cookie
from flota.errors import MetricsMissing
from flota.job.roles import TRAINER

STATIC = os.path.join(os.path.dirname(__file__), "static")
KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
MOST_CONNECTIONS = 64
IDLE_TIME = 20.0  # seconds: the longest pause of a client in a request, or before it takes an answer
KEEP_ALIVE = 10.0  # seconds between signs of life in a stream
LARGEST_BODY = 4 << 10  # bytes
OWN_HEADER = "X-Flota"  # a page of another site cannot add it
VERBS = {"/api/stop": "stop", "/api/restart": "restart", "/api/drain": "leave"}
LARGEST_NUMBER = 1 << 53


def page_files() -> dict[str, str]:
    """The files of the page, by name."""
    names = sorted(os.listdir(STATIC))
    return {name: Path(STATIC, name).read_text() for name in names if name.rpartition(".")[2] in KINDS}


class PageRefused(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, words: str) -> None:
        self.status = status
        self.words = words


class PageServer(ThreadingHTTPServer):
    """Raises OSError if it cannot listen at the address."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, address: str, port: int, token: str = "") -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.source: JobSource | None = None
        self.token = token or secrets.token_urlsafe(24)
        self.session = secrets.token_urlsafe(24)
        self.cookie = f"flota-{secrets.token_hex(4)}"  # pages of several jobs may have the same host name
        self.names = frozenset({"localhost", os.uname().nodename.lower(), socket.getfqdn().lower()})
        self._guard = threading.Lock()
        self._open: dict[socket.socket, bool] = {}  # the oldest first: whether its client has shown the token
        super().__init__((address, port), PageRequest)

    @property
    def link(self) -> str:
        address, port = self.server_address[:2]
        host = {"0.0.0.0": os.uname().nodename, "::": os.uname().nodename}.get(str(address), str(address))  # noqa: S104
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/#token={self.token}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Drop the oldest stranger if there are too many connections, or else the new one."""
        with self._guard:
            if len(self._open) >= MOST_CONNECTIONS:
                oldest = next((one for one, is_known in self._open.items() if not is_known), request)
                self._open.pop(oldest, None)
                close(oldest)
                if oldest is request:
                    return
            self._open[request] = False
        super().process_request(request, client_address)

    def keep(self, request: socket.socket) -> None:
        with self._guard:
            if request in self._open:
                self._open[request] = True

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing to say: the client has gone, or was dropped."""


def close(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)  # wakes up its thread, which closes it
    except OSError:
        pass


class PageRequest(BaseHTTPRequestHandler):
    """The requests of one connection."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_TIME
    server: PageServer

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""

    def version_string(self) -> str:
        return "flota"

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def _answer(self, method: str) -> None:
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        try:
            if not is_own_host(self.headers.get("Host", ""), self.server.names):
                raise PageRefused(421, "this server does not have that name")
            body = self._read_body() if method == "POST" else b""
            if method == "GET" and not url.path.startswith(("/api/", "/metrics")):
                self._send_file(url.path)
            elif (method, url.path) == ("POST", "/api/login"):
                self._log_in(body)
            else:
                self._check_token()
                self._answer_known(method, url.path, query, body)
        except (PageRefused, NotThere) as error:
            status = error.status if isinstance(error, PageRefused) else 409
            words = error.words if isinstance(error, PageRefused) else str(error)
            self.close_connection = True
            self._send(msgspec.json.encode({"error": words}), status=status)
        except OSError:
            self.close_connection = True  # the client has gone

    def _read_body(self) -> bytes:
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > LARGEST_BODY:
            raise PageRefused(413, "the request is too large")
        return self.rfile.read(int(size))

    # Who may ask.

    def _log_in(self, body: bytes) -> None:
        """Exchange the token, which the page has from its link, for a cookie that scripts cannot read."""
        self._check_own_page()
        try:
            given = msgspec.json.decode(body, type=dict[str, str]).get("token", "")
        except (ValueError, RecursionError):
            given = ""
        if not hmac.compare_digest(given.encode(), self.server.token.encode()):
            raise PageRefused(401, "the token in the link is wrong")
        cookie = f"{self.server.cookie}={self.server.session}; Path=/; HttpOnly; SameSite=Strict"
        self._send(b"{}", cookie=cookie)

    def _check_token(self) -> None:
        bearer = self.headers.get("Authorization", "").encode()
        cookie = read_cookie(self.headers.get("Cookie", ""), self.server.cookie).encode()
        has_token = hmac.compare_digest(bearer, f"Bearer {self.server.token}".encode())
        if not has_token and not hmac.compare_digest(cookie, self.server.session.encode()):
            raise PageRefused(401, "the request does not have the token")
        self.server.keep(self.connection)

    def _check_own_page(self) -> None:
        origin, host = self.headers.get("Origin", ""), self.headers.get("Host", "")
        site = self.headers.get("Sec-Fetch-Site", "same-origin")
        if self.headers.get(OWN_HEADER) != "1" or not is_same_origin(origin, host) or site != "same-origin":
            raise PageRefused(403, "the request does not come from the page")

    # Answers.

    def _answer_known(self, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        source = self.server.source
        if source is None:
            raise PageRefused(503, "the job is not known yet")
        if method == "POST" and path in VERBS:
            self._check_own_page()
            self._send_json({"message": source.act(VERBS[path], self._seat(body))})
        elif method == "GET" and path in ANSWERS:
            ANSWERS[path](self, source, query)
        else:
            raise PageRefused(404, "there is no such page")

    def _seat(self, body: bytes) -> int:
        try:
            return msgspec.json.decode(body or b"{}", type=dict[str, int]).get("seat", -1)
        except (ValueError, RecursionError):
            raise PageRefused(400, "expected a JSON object") from None

    def stream(self, source: JobSource, _query: dict[str, str]) -> None:
        """Snapshots as server-sent events, until the client is gone. One that does not take them is dropped."""
        self.close_connection = True
        self._begin(200, {"Content-Type": "text/event-stream", "Connection": "close"})
        known = 0
        while True:
            number, snapshot = source.wait(known, KEEP_ALIVE)
            if self.server.source is not source and self.server.source is not None:  # the job has ended
                source, known = self.server.source, 0
                continue
            self.wfile.write(b"data: " + snapshot + b"\n\n" if number != known else b": \n\n")
            known = number

    def curves(self, source: JobSource, _query: dict[str, str]) -> None:
        self._send_json(source.curves())

    def timeline(self, source: JobSource, _query: dict[str, str]) -> None:
        self._send_json(source.timeline())

    def log(self, source: JobSource, query: dict[str, str]) -> None:
        rank, offset = self._number(query, "rank"), self._number(query, "offset")
        file = self._number({"file": "0", **query}, "file")
        begins, data = source.log_part(query.get("role", TRAINER), rank, file, offset)
        complete = data.rpartition(b"\n")[0] + b"\n" if b"\n" in data else b""
        if begins and offset < 0:
            complete = complete.partition(b"\n")[2]  # the first line has lost its beginning
        end = begins + data.rfind(b"\n") + 1
        self._send_json({"lines": clean_lines(complete), "next": end})

    def tails(self, source: JobSource, _query: dict[str, str]) -> None:
        self._send_json({"lines": fold((name, clean_lines(data)) for name, data in source.tails())})

    def stacks(self, source: JobSource, _query: dict[str, str]) -> None:
        self._send_json({"lines": source.stacks()})

    def metrics(self, source: JobSource, _query: dict[str, str]) -> None:
        from flota.dashboard.metrics import KIND, metrics_of

        try:
            text = metrics_of(source.newest(), source.counters())
        except MetricsMissing as missing:
            raise PageRefused(503, f"{missing.message}: {missing.hint}") from None
        self._send(text, KIND)

    def _number(self, query: dict[str, str], name: str) -> int:
        text = query.get(name, "")
        if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > len(str(LARGEST_NUMBER)):
            raise PageRefused(400, f"invalid {name}")
        return int(text)

    def _send_file(self, path: str) -> None:
        name = path.removeprefix("/") or "index.html"
        if name not in os.listdir(STATIC):
            raise PageRefused(404, "there is no such page")
        with open(f"{STATIC}/{name}", "rb") as file:
            self._send(file.read(), KINDS[name.rpartition(".")[2]])

    def _send_json(self, value: object) -> None:
        self._send(msgspec.json.encode(value))

    def _send(self, body: bytes, kind: str = "application/json", status: int = 200, cookie: str = "") -> None:
        more = {
            **({"Connection": "close"} if self.close_connection else {}),
            **({"Set-Cookie": cookie} if cookie else {}),
        }
        self._begin(status, {"Content-Type": kind, "Content-Length": str(len(body)), **more})
        self.wfile.write(body)

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()


ANSWERS: dict[str, Callable[[PageRequest, JobSource, dict[str, str]], None]] = {
    "/api/stream": PageRequest.stream,
    "/api/curves": PageRequest.curves,
    "/api/timeline": PageRequest.timeline,
    "/api/log": PageRequest.log,
    "/api/tails": PageRequest.tails,
    "/api/stacks": PageRequest.stacks,
    "/metrics": PageRequest.metrics,
}
