"""Workers' output on its way into a notebook's cell, or into whatever else has replaced the caller's streams."""

from __future__ import annotations

import codecs
import io
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def is_plain(stream: object, fd: int) -> bool:
    """Whether it is the process's own, so that workers may write to it themselves."""
    if type(stream) is not io.TextIOWrapper:
        return False
    try:
        return stream.fileno() == fd
    except (OSError, ValueError):
        return False


class Forwarder:
    """A pipe that workers write to, whose content is written to a Python stream."""

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = stream
        self.fd, self.writer = os.pipe()
        os.set_blocking(self.fd, False)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def close_writer(self) -> None:
        """The workers have it: ours would keep the pipe from ending."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self.close_writer()
        os.close(self.fd)

    def forward(self) -> bool:
        """Write what is in the pipe now. Returns False if it is empty: at its end, or held open by another process."""
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            data = b""
        text = self._decode(data, not data)
        if text and self.stream is not None:
            try:
                self.stream.write(text)
                self.stream.flush()
            except Exception:  # noqa: S110  closed by now: there is nowhere to report it
                pass
        return bool(data)
