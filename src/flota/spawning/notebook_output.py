"""Workers' output on its way into a notebook's cell, or whatever else the program has in the place of its streams."""

from __future__ import annotations

import codecs
import io
import os
import sys

from flota.errors.spawning import CannotStartNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

STREAMS = (("stdout", 1), ("stderr", 2))


def is_plain(stream: object, fd: int) -> bool:
    """Whether it is the process's own, so that workers may write to it themselves."""
    if type(stream) is not io.TextIOWrapper:
        return False
    try:
        return stream.fileno() == fd
    except (OSError, ValueError):
        return False


def choose_outputs() -> tuple[list[int], list[Forwarder]]:
    """Where workers' stdout and stderr go, and what passes on that which cannot go there by itself."""
    targets: list[int] = []
    forwarders: list[Forwarder] = []
    for name, fd in STREAMS:
        stream = getattr(sys, name)
        if is_plain(stream, fd):
            targets.append(fd)
            continue
        try:
            forwarder = Forwarder(stream)
        except OSError as error:
            close_outputs(forwarders)
            raise CannotStartNode(error) from None
        forwarders.append(forwarder)
        targets.append(forwarder.writer)
    return targets, forwarders


def close_outputs(forwarders: list[Forwarder]) -> None:
    for forwarder in forwarders:
        forwarder.close()


class Forwarder:
    """A pipe whose reader writes to a stream of Python's."""

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream
        self.fd, self.writer = os.pipe()
        os.set_blocking(self.fd, False)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._closed = False

    def close_writer(self) -> None:
        """The workers have it: ours would keep the pipe from ending."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def pass_on(self) -> bool:
        """What is there now; whether more may come."""
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            return True
        self._write(self._decode(data, not data))
        return bool(data)

    def finish(self) -> None:
        """All workers are gone: what they left in the pipe."""
        while True:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                data = b""  # a stranger has the other end, too
            self._write(self._decode(data, not data))
            if not data:
                return

    def close(self) -> None:
        self.close_writer()
        if not self._closed:
            self._closed = True
            os.close(self.fd)

    def _write(self, text: str) -> None:
        if text and self.stream is not None:
            try:
                self.stream.write(text)
                self.stream.flush()
            except Exception:  # noqa: S110  closed by now: nobody is there to be told
                pass
