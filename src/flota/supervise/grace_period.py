"""How workers are stopped: asked with a signal, and killed when the grace period is over. Pure."""

from __future__ import annotations

from _collections_abc import Iterable

from flota.supervise.actions import Action, KillWorker, StopWorker

SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGTERM = 1, 2, 3, 6, 15
FROM_TERMINAL = (SIGHUP, SIGINT, SIGQUIT)  # what a person sends to flota; workers get SIGTERM instead


def ask_to_stop(workers: Iterable[int], signal: int, now: float, grace: float) -> tuple[list[Action], float]:
    """What is sent, and when those that are left are killed."""
    sent = SIGTERM if signal in FROM_TERMINAL else signal
    return [StopWorker(worker, sent) for worker in sorted(workers)], now + grace


def kill(workers: Iterable[int]) -> list[Action]:
    return [KillWorker(worker) for worker in sorted(workers)]
