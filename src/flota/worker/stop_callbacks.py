"""on_stop: callbacks for workers that cannot poll should_stop, because a framework runs their training loop."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from flota.errors.worker import NothingToCall, NotInMainThread
from flota.worker import heartbeat
from flota.worker.heartbeat import NO_STEP, WANTS_SIGNAL


class _State:
    def __init__(self) -> None:
        self.callbacks: list[Callable[[], object]] = []
        self.previous: Any = None  # the previous handler of SIGTERM
        self.handles = self.watches_forks = False
        self.asked = False  # another thread has reached the agreed step
        self.ending = False
        self.masks: dict[int, set[Any]] = {}  # of threads that are forking


_state = _State()


def on_stop(callback: Callable[[], object]) -> None:
    """Register a callback for preemption. It runs in the main thread; then the worker exits with code 0.

    If the ranks report their steps, it runs on all of them in the `heartbeat` of the same step; otherwise immediately.
    """
    if not callable(callback):
        raise NothingToCall(callback)
    page = heartbeat._page  # noqa: SLF001
    if not page.is_open():
        return
    if not _is_main_thread():
        raise NotInMainThread
    if not _state.handles:
        _state.previous = signal.signal(signal.SIGTERM, _on_sigterm)
        _state.handles = True
    if not _state.watches_forks:
        _state.watches_forks = True
        os.register_at_fork(before=_block_sigterm, after_in_parent=_unblock_sigterm, after_in_child=_reset_in_child)
    _state.callbacks.append(callback)
    page.set_flag(WANTS_SIGNAL)


def exit_worker() -> None:
    """Run the callbacks and exit. Called in another thread, it makes the main thread do so and ends this thread."""
    run_callbacks()
    raise SystemExit(0)


def run_callbacks() -> None:
    """Run each callback once, in the main thread."""
    if not _is_main_thread():
        if not _state.asked:
            _state.asked = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        return
    if not _state.ending:
        _state.ending = True
        atexit.register(_ignore_sigterm)
    while _state.callbacks:
        _state.callbacks.pop(0)()


def _ignore_sigterm() -> None:
    """Ignore SIGTERM at exit: it may arrive when the handlers of the interpreter no longer run, and would kill it."""
    if signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _on_sigterm(number: int, _frame: object) -> None:
    """Run the callbacks in a preemption without steps; for an ordinary stop, use the previous handler."""
    if _state.ending:
        return  # the callbacks run; if that takes too long, SIGKILL follows
    if _state.asked or heartbeat._page.stop_step() == NO_STEP:  # noqa: SLF001
        exit_worker()
    _restore()
    os.kill(os.getpid(), number)


def _restore() -> None:
    if _state.handles and signal.getsignal(signal.SIGTERM) is _on_sigterm:
        # None means a handler that was not set from Python.
        signal.signal(signal.SIGTERM, signal.SIG_DFL if _state.previous is None else _state.previous)
    _state.handles = False


def _block_sigterm() -> None:
    """Block SIGTERM before a fork: a new child would drop a signal that it has received but not handled."""
    _state.masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _unblock_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _state.masks.pop(threading.get_ident()))


def _reset_in_child() -> None:
    """Remove the callbacks in a forked child, which is not this worker."""
    _restore()
    _state.callbacks.clear()
    _state.asked = _state.ending = False
    _unblock_sigterm()
    _state.masks.clear()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
