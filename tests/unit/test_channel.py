"""The channel between a node and its workers, both ends in one process."""

from __future__ import annotations

import os
import struct

import pytest

from flota.host.channel import PAGE, POLLS, STOP_AT, Channel
from flota.supervise.yielding import NO_OPINION, NOW, agreed_step
from flota.worker import heartbeat as worker


@pytest.fixture
def channel(monkeypatch):
    """The worker is the second of two."""
    made = Channel(2)
    monkeypatch.setenv("FLOTA_CHANNEL", made.name(1))
    monkeypatch.setattr(worker, "_page", worker._Page())
    yield made
    made.close()


def test_a_beat_carries_step_and_numbers_to_the_node(channel):
    worker.heartbeat(41, loss=0.5, samples=7)
    beat = channel.read(1)
    assert (beat.step, beat.numbers) == (41, {"loss": 0.5, "samples": 7.0})
    assert beat.at > 0
    assert channel.read(0).at == 0, "the other worker has said nothing"


def test_a_beat_without_a_step_keeps_the_last_one(channel):
    worker.heartbeat(3)
    worker.heartbeat()
    assert channel.read(1).step == 3


def test_the_pace_is_known_after_two_steps(channel, monkeypatch):
    clock = iter(range(0, 100, 2))
    monkeypatch.setattr(worker, "monotonic", lambda: float(next(clock)))
    worker.heartbeat(0)
    assert channel.read(1).seconds == 0.0
    worker.heartbeat(2)
    assert channel.read(1).seconds == pytest.approx(2.0), "two steps in four seconds"


@pytest.mark.parametrize(
    "odd", [{"loss": object()}, {"loss": "0.5"}, {"n" * 300: 1.0}, {str(i): 1.0 for i in range(999)}]
)
def test_whatever_is_passed_nothing_is_raised_and_the_step_arrives(channel, odd):
    worker.heartbeat(5, **odd)
    assert channel.read(1).step == 5
    assert not channel.memory[PAGE + STOP_AT : PAGE + STOP_AT + 12].strip(b"\0"), "the node's half is the node's"


def test_a_step_that_is_no_number_is_left_out(channel):
    worker.heartbeat(1)
    worker.heartbeat("two")
    assert channel.read(1).step == 1


def test_what_is_not_a_list_of_numbers_is_read_as_none(channel):
    worker.heartbeat(1, loss=1.0)
    channel.memory[PAGE + 40 : PAGE + 60] = b"\xff" * 20
    assert channel.read(1).step == 1


def test_a_worker_that_died_while_writing_is_read_all_the_same(channel):
    worker.heartbeat(8, loss=1.0)
    struct.pack_into("=Q", channel.memory, PAGE, 3)
    assert channel.read(1).step == 8


def test_who_asks_whether_to_stop_is_known_to_listen(channel):
    assert channel.read(1).listens == 0
    assert worker.should_stop() is False
    assert channel.read(1).listens == POLLS


def test_all_stop_at_the_step_they_are_told(channel):
    worker.heartbeat(10)
    channel.tell_to_stop(1, 12)
    assert not worker.should_stop()
    worker.heartbeat(12)
    assert worker.should_stop()


def test_without_steps_at_once(channel):
    assert not worker.should_stop()
    channel.tell_to_stop(1)
    assert worker.should_stop()


@pytest.mark.parametrize("value", ["", "/nowhere:0", "/proc/self/fd/99999:0", "nonsense"])
def test_without_a_node_nothing_happens(monkeypatch, value):
    monkeypatch.setenv("FLOTA_CHANNEL", value)
    monkeypatch.setattr(worker, "_page", worker._Page())
    worker.heartbeat(1, loss=0.5)
    assert worker.should_stop() is False


def test_a_forked_child_does_not_speak_for_the_worker(channel):
    worker.heartbeat(1)
    child = os.fork()
    if child == 0:
        worker.heartbeat(99)
        os._exit(0)
    os.waitpid(child, 0)
    assert channel.read(1).step == 1


@pytest.mark.parametrize(
    ("steps", "pace", "notice", "agreed"),
    [
        ([10, 12], 0.0, 1.0, 14),
        ([10], 100.0, 1.0, 212),
        ([10, NOW], 1.0, 1.0, NOW),
        ([NO_OPINION, 5], 0.0, 1.0, 7),
        ([NO_OPINION], 0.0, 1.0, NOW),
    ],
)
def test_the_agreed_step_is_one_that_nobody_can_have_passed(steps, pace, notice, agreed):
    assert agreed_step(steps, pace, notice) == agreed
