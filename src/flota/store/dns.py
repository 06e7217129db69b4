"""Hosts to addresses. A resolver takes as long as it likes, so names are looked up in a thread, never in the loop."""

import os
import socket

Address = tuple[int, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]  # a family, and its address


def numeric(host: str, port: int) -> list[Address]:
    """The address that a host is already; none for a name."""
    try:
        return find_addresses(host, port, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []


def find_addresses(host: str, port: int, *, flags: int = 0) -> list[Address]:
    """Blocks while it asks the resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]


class Lookup:
    """One name being looked up. `fd` becomes readable when `addresses` is there, or `why` there is none."""

    def __init__(self, host: str, port: int) -> None:
        # The C core of `threading`, which nothing else here needs.
        import _thread

        self.addresses: list[Address] = []
        self.why = ""
        self.fd, writer = os.pipe()
        try:
            _thread.start_new_thread(self._look_up, (host, port, writer))
        except RuntimeError:  # too many threads
            self.why = "no thread to look it up"
            os.close(writer)

    def close(self) -> None:
        os.close(self.fd)

    def _look_up(self, host: str, port: int, writer: int) -> None:
        try:
            self.addresses = find_addresses(host, port)
        except OSError as error:
            self.why = error.strerror or str(error)
        except UnicodeError:
            self.why = "no name of a host"
        try:
            os.write(writer, b".")  # closing it is not enough: a process forked meanwhile has it too
        except OSError:
            pass  # closed meanwhile
        os.close(writer)
