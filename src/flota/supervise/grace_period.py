"""Stops workers: with a signal first, and with SIGKILL after the grace period. Pure."""

from __future__ import annotations

from _collections_abc import Iterable

from flota.supervise.actions import Action, KillWorker, StopWorker

SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGTERM = 1, 2, 3, 6, 15
FROM_TERMINAL = (SIGHUP, SIGINT, SIGQUIT)  # sent by a user at a terminal; workers get SIGTERM instead


def ask_to_stop(workers: Iterable[int], signal: int, now: float, grace: float) -> tuple[list[Action], float]:
    """The signals to send, and when the remaining workers are killed."""
    sent = SIGTERM if signal in FROM_TERMINAL else signal
    return [StopWorker(worker, sent) for worker in sorted(workers)], now + grace


def kill(workers: Iterable[int]) -> list[Action]:
    return [KillWorker(worker) for worker in sorted(workers)]
