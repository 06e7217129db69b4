"""Signals as bytes on a pipe, so that the loop handles them: none is lost and none kills the process.

On the C core of `signal`: the module itself turns its constants into enums, which costs a start 6 ms.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
from _collections_abc import Sequence


class Signals:
    """`fd` becomes readable when one has arrived. Those ignored when flota started (nohup) stay ignored."""

    def __init__(self, names: Sequence[str]) -> None:
        self.fd, end = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(end, False)
        _signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        for name in names:
            number = getattr(_signal, name)
            if number == _signal.SIGCHLD or _signal.getsignal(number) != _signal.SIG_IGN:
                # A handler, not SIG_IGN: ignored signals would stay ignored in workers, handled ones do not.
                _signal.signal(number, _nothing)

        # The caller's blocked signals are inherited: blocked ones would never arrive, nor would they in workers.
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, {getattr(_signal, name) for name in names})

    def read(self) -> list[int]:
        """The signals that arrived, once per delivery."""
        return list(os.read(self.fd, 4096))


def forget_wakeup() -> None:
    """In a fork: only the node may write to its wake-up pipe."""
    _signal.set_wakeup_fd(-1)


def _nothing(*_: object) -> None:
    """The byte on the wake-up pipe is enough."""
