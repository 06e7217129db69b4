"""Programs that have the port on which a node expects the master of its job."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

OK = "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{}"
OF_ETCD = '{"header":{"cluster_id":"7"},"ID":"123","TTL":"5"}'
# What they send to a client that has sent something; nothing: they wait.
STRANGERS = {
    "silent": "",
    "http": "HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\nnot found",
    "json": OK.format(2, "{}"),
    "ssh": "SSH-2.0-OpenSSH_9.2\r\n",
    "etcd": OK.format(len(OF_ETCD), OF_ETCD),
}


@contextlib.contextmanager
def taken_port(sends: str, own: socket.socket | None = None) -> Iterator[int]:
    """`own`: its socket, if not one of this host with any port."""
    with contextlib.ExitStack() as connections, own or socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):  # from accept(), when it is closed
                while True:
                    client = connections.enter_context(listener.accept()[0])
                    with contextlib.suppress(OSError):
                        if sends and client.recv(1 << 16):
                            client.sendall(sends.encode())

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
