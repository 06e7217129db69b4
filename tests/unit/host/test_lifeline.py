"""What a node does with the lines of its launcher, with their absence, and with their end."""

from __future__ import annotations

import os
import signal

import pytest

from flota.host.lifeline import Lifeline
from flota.host.loop import Loop


@pytest.fixture
def raised():
    """The signals that arrive in this process."""
    arrived: list[str] = []
    names = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in names}
    for number in names:
        signal.signal(number, lambda given, _: arrived.append(signal.Signals(given).name))
    yield arrived
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def line(raised):
    """A lifeline's loop and the launcher's end of it."""
    node, launcher = os.pipe()
    loop = Loop()
    lifeline = Lifeline(node, loop)
    yield loop, launcher
    loop.forget(node)
    for fd in (node, launcher):
        try:
            os.close(fd)
        except OSError:
            pass  # closed by the test
    del lifeline


def test_names_of_signals_are_raised_and_all_else_is_a_sign_of_life(line, raised):
    loop, launcher = line
    os.write(launcher, b"\n\nSIGKILL\nSIGINT\nnonsense\nSIGU")
    loop.turn(0)
    os.write(launcher, b"SR1\n")

    loop.turn(0)

    assert raised == ["SIGINT", "SIGUSR1"]


def test_the_end_of_the_connection_is_one_sigterm(line, raised):
    loop, launcher = line
    os.close(launcher)

    loop.turn(0)
    loop.turn(0)

    assert raised == ["SIGTERM"]


def test_silence_is_a_sigterm(line, raised):
    signal.raise_signal(signal.SIGALRM)

    assert raised == ["SIGTERM"]


def test_what_arrived_while_the_node_was_suspended_is_not_silence(line, raised):
    os.write(line[1], b"\n")

    signal.raise_signal(signal.SIGALRM)

    assert raised == []
