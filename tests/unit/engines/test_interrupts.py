"""Ctrl-C while a job that ends with this process is followed."""

from __future__ import annotations

import os
import signal

import pytest

from flota.engines.interrupts import Interrupts


class Job:
    def __init__(self):
        self.asked = []

    def stop(self):
        self.asked.append("stop")

    def kill(self):
        self.asked.append("kill")


@pytest.fixture(autouse=True)
def handlers():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def asked_after(*numbers):
    job = Job()
    interrupts = Interrupts(job, "the job", can_detach=False)
    for number in numbers:
        os.kill(os.getpid(), number)
        assert not interrupts.detaches()
    return job.asked


def test_the_first_ctrl_c_stops_and_the_second_kills():
    assert asked_after(signal.SIGINT) == ["stop"]
    assert asked_after(signal.SIGINT, signal.SIGINT) == ["stop", "kill"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_stop_and_never_kill(number):
    signal.signal(number, signal.SIG_DFL)

    assert asked_after(number, number) == ["stop"]
    assert asked_after(number, signal.SIGINT) == ["stop", "kill"]


def test_nohup_is_respected():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    assert asked_after(signal.SIGHUP) == []
