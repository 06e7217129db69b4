"""Resolves host names. A lookup may take long, so it runs in a thread, never in the loop."""

from __future__ import annotations

import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Address = tuple[int, tuple[Any, ...]]  # family and address


def numeric(host: str, port: int) -> list[Address]:
    """The addresses if the host is an IP address; empty for a name."""
    try:
        return find_addresses(host, port, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []


def find_addresses(host: str, port: int, *, flags: int = 0) -> list[Address]:
    """Resolve a host. Blocks."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]


class Lookup:
    """A lookup in progress. `fd` becomes readable when `addresses` is set, or `why` there are none."""

    def __init__(self, host: str, port: int) -> None:
        # Not `threading`, which nothing else here needs.
        import _thread

        self.addresses: list[Address] = []
        self.why = ""
        self.fd, writer = os.pipe()
        try:
            _thread.start_new_thread(self._look_up, (host, port, writer))
        except RuntimeError:  # too many threads
            self.why = "cannot start a thread to resolve the name"
            os.close(writer)

    def close(self) -> None:
        os.close(self.fd)

    def _look_up(self, host: str, port: int, writer: int) -> None:
        try:
            self.addresses = find_addresses(host, port)
        except OSError as error:
            self.why = (error.strerror or str(error)).lower()
        except UnicodeError:
            self.why = "not a valid host name"
        try:
            os.write(writer, b".")  # closing it is not enough: a process forked meanwhile has it as well
        except OSError:
            pass  # closed meanwhile
        os.close(writer)
