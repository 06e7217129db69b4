"""The connection between a node and the launcher that started it over ssh: the node's old standard input.

Each line is the name of a signal, or empty. The launcher writes an empty line every second, because the end of a
connection is not always seen: of a machine without power, or behind a cut cable, the kernel reports nothing for hours.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os

from flota.host.loop import Loop

BEAT = 1.0  # seconds between two lines of the launcher
SILENCE = 5.0  # seconds without a line after which the connection counts as lost, as in cluster/lease_times.py
KNOWN = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


class Lifeline:
    """Raises signals in this process: those that the launcher sends, and SIGTERM when the connection is lost.

    It has its own timer, not a deadline of the loop: some waits of a node have no deadline.
    """

    def __init__(self, fd: int, loop: Loop) -> None:
        self._fd, self._loop = fd, loop
        self._rest = b""
        os.set_blocking(fd, False)
        loop.watch(fd, self.on_ready)
        _signal.signal(_signal.SIGALRM, self._on_silence)
        _signal.setitimer(_signal.ITIMER_REAL, SILENCE)

    def on_ready(self) -> bool:
        """Returns whether the launcher has written something."""
        try:
            data = os.read(self._fd, 4096)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._end()
            return False
        _signal.setitimer(_signal.ITIMER_REAL, SILENCE)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            name = line.decode(errors="replace")
            if name in KNOWN:
                _signal.raise_signal(getattr(_signal, name))
        return True

    def _on_silence(self, *_: object) -> None:
        """This process may have been suspended: what the launcher has written since then counts."""
        if self._loop.watches(self._fd) and not self.on_ready() and self._loop.watches(self._fd):
            self._end()

    def _end(self) -> None:
        self._loop.forget(self._fd)
        _signal.setitimer(_signal.ITIMER_REAL, 0)
        _signal.raise_signal(_signal.SIGTERM)
