"""Stops workers: with a signal first, and with SIGKILL after the grace period. Pure."""

from __future__ import annotations

from _collections_abc import Iterable

from flota.supervise.actions import Action, KillWorker, StopWorker

SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGTERM = 1, 2, 3, 6, 15
LONGEST_RESTART_GRACE = 5.0  # seconds, unless --restart-grace is given
FROM_TERMINAL = (SIGHUP, SIGINT, SIGQUIT)  # sent by a user at a terminal; workers get SIGTERM instead


def restart_grace_of(grace: float, given: float | None) -> float:
    """The grace period of workers that are restarted. Another rank has failed, so they cannot finish a step or save
    together: most exit at once, and those that do not (JAX catches SIGTERM) are waiting for that rank."""
    return min(grace, LONGEST_RESTART_GRACE) if given is None else given


def ask_to_stop(workers: Iterable[int], signal: int, now: float, grace: float) -> tuple[list[Action], float]:
    """The signals to send, and when the remaining workers are killed."""
    sent = SIGTERM if signal in FROM_TERMINAL else signal
    return [StopWorker(worker, sent) for worker in sorted(workers)], now + grace


def kill(workers: Iterable[int]) -> list[Action]:
    return [KillWorker(worker) for worker in sorted(workers)]
