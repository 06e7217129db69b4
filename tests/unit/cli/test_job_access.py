"""How a command finds out whether a node uses TLS."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flota.cli.job_access import derived_authority, job_at, speaks_tls
from flota.errors import CannotAsk
from flota.store.server_connection import TLS_REQUIRED


@contextmanager
def server(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Answers one request."""
    received: list[bytes] = []

    def serve() -> None:
        client, _ = listener.accept()
        with client:
            received.append(client.recv(1000))
            client.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", received
        thread.join()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", False),
        (b"\x15\x03\x03\0\2\2\x46", True),
        (b"", True),
        (TLS_REQUIRED, True),
    ],
)
def test_a_node_that_does_not_answer_over_http_uses_tls(answer, expected):
    with server(answer) as (where, received):
        assert speaks_tls(where) == expected
    assert b"authorization" not in received[0].lower()


def test_where_nothing_listens_the_request_itself_reports_it():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = f"127.0.0.1:{listener.getsockname()[1]}"
    assert not speaks_tls(where)
    assert not speaks_tls("gpu01")
    with pytest.raises(CannotAsk, match="connection refused"):
        job_at(where, {"FLOTA_TOKEN": "secret"}).entry.status()


def test_the_ca_is_made_from_the_token_if_there_is_openssl(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert derived_authority("secret").startswith("-----BEGIN CERTIFICATE-----")
    monkeypatch.setenv("PATH", "")
    assert derived_authority("secret") == ""
    assert list(tmp_path.iterdir()) == []
