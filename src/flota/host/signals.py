"""Delivers signals as bytes on a pipe, for the event loop: none is lost and none kills the process.

Uses the C core of `signal`: the module turns its constants into enums, which would add 6 ms to the start.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
from _collections_abc import Sequence


class Signals:
    """`fd` becomes readable when a signal arrives. Signals that were ignored at flota's start (nohup) stay ignored."""

    def __init__(self, names: Sequence[str]) -> None:
        self.fd, end = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(end, False)
        _signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        for name in names:
            number = getattr(_signal, name)
            if number == _signal.SIGCHLD or _signal.getsignal(number) != _signal.SIG_IGN:
                # A handler, not SIG_IGN: workers inherit ignored signals, but not handlers.
                _signal.signal(number, _nothing)

        # Blocked signals are inherited from the caller: they would arrive neither here nor in workers.
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {getattr(_signal, name) for name in names})

    def read(self) -> list[int]:
        """Return the signals that have arrived, one entry per delivery."""
        return list(os.read(self.fd, 4096))


def restore_interrupt() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, unless it is ignored: the node and the shepherd clean up before they exit."""
    if _signal.getsignal(_signal.SIGINT) != _signal.SIG_IGN:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def forget_wakeup() -> None:
    """Detach a fork from the wake-up pipe: only the node may write to it."""
    _signal.set_wakeup_fd(-1)


def _nothing(*_: object) -> None:
    """Do nothing: Python has written to the wake-up pipe."""
