"""The loop calls back for what is ready, and only for that."""

from __future__ import annotations

import os
import select
import time

import pytest

from flota.host import loop as loop_module
from flota.host.loop import WRITABLE, Loop


def test_a_descriptor_that_changes_hands_within_a_turn_is_not_called_for_the_old_one():
    loop = Loop()
    first, first_end = os.pipe()
    second, second_end = os.pipe()
    called = []

    def hand_over(own, other):
        """Whichever comes first gives the other's number to somebody new, who has nothing to read."""
        called.append(own)
        loop.forget(other)
        loop.watch(other, lambda: called.append("new"))

    loop.watch(first, lambda: hand_over("first", second))
    loop.watch(second, lambda: hand_over("second", first))
    os.write(first_end, b"x")
    os.write(second_end, b"x")

    loop.turn(1)

    assert len(called) == 1
    assert "new" not in called
    for fd in (first, first_end, second, second_end):
        os.close(fd)


@pytest.fixture(params=["epoll", "poll"])
def loop(request, monkeypatch):
    if request.param == "poll":
        monkeypatch.setattr(loop_module, "_make_poll", lambda: (select.poll(), 1000))
    return Loop()


@pytest.fixture
def pipe():
    ends = list(os.pipe())
    yield ends
    for fd in ends:
        close(fd)


def close(fd: int) -> None:
    try:
        os.close(fd)
    except OSError:
        pass


def test_what_is_ready_is_called_for_and_nothing_else(loop, pipe):
    reader, writer = pipe
    called = []
    loop.watch(reader, lambda: called.append("read"))
    loop.turn(0)
    assert called == []

    os.write(writer, b"x")
    loop.turn(1)

    assert called == ["read"]


def test_a_wait_is_never_shorter_than_asked(loop, pipe):
    loop.watch(pipe[0], lambda: None)
    began = time.monotonic()

    loop.turn(0.0304)

    assert 0.0304 <= time.monotonic() - began < 1


def test_the_wanted_events_can_be_changed(loop, pipe):
    _, writer = pipe
    called = []
    loop.watch(writer, lambda: called.append("idle"), 0)
    loop.turn(0)
    loop.watch(writer, lambda: called.append("written"), WRITABLE)
    loop.turn(1)

    assert called == ["written"]


def test_a_descriptor_closed_before_it_is_forgotten_does_no_harm(loop, pipe):
    reader, _ = pipe
    other, other_end = os.pipe()
    called = []
    loop.watch(reader, lambda: called.append("closed"))
    loop.watch(other, lambda: called.append("other"))
    os.close(reader)

    loop.forget(reader)
    os.write(other_end, b"x")
    loop.turn(1)

    assert called == ["other"]
    os.close(other)
    os.close(other_end)


def test_a_descriptor_that_was_closed_and_reopened_is_watched_again(loop, pipe):
    reader, _ = pipe
    called = []
    loop.watch(reader, lambda: called.append("old"))
    fresh, fresh_end = os.pipe()
    os.dup2(fresh, reader)  # what closing and opening do, whatever numbers are free
    loop.watch(reader, lambda: called.append("new"))

    os.write(fresh_end, b"x")
    loop.turn(1)

    assert called == ["new"]
    os.close(fresh)
    os.close(fresh_end)


def test_a_closed_file_that_a_forked_process_keeps_open_is_not_reported(loop, pipe):
    reader, writer = pipe
    called = []
    loop.watch(reader, lambda: called.append("old"))
    kept = os.dup(reader)  # as a fork keeps it: the same open file, under a number that the loop does not know
    fresh, fresh_end = os.pipe()
    os.dup2(fresh, reader)  # what closing and opening do, whatever numbers are free
    os.write(writer, b"x")

    loop.forget(reader)
    loop.watch(reader, lambda: called.append("new"))
    loop.turn(0)

    assert called == []
    for fd in (kept, fresh, fresh_end):
        os.close(fd)


def test_a_turn_costs_no_more_with_many_silent_descriptors(pipe):
    loop = Loop()
    loop.watch(pipe[0], lambda: None)
    alone = quickest_turn(loop)
    crowd = [os.dup(pipe[0]) for _ in range(700)]
    for fd in crowd:
        loop.watch(fd, lambda: None)

    crowded = quickest_turn(loop)

    assert crowded < alone * 5
    for fd in crowd:
        loop.forget(fd)
        os.close(fd)


def quickest_turn(loop: Loop) -> float:
    """Seconds, when nothing else gets in its way."""
    best = 1.0
    for _ in range(500):
        began = time.perf_counter()
        loop.turn(0)
        best = min(best, time.perf_counter() - began)
    return best


@pytest.fixture
def ready_pipes():
    pipes = [os.pipe() for _ in range(5)]
    for _, end in pipes:
        os.write(end, b"x")
    yield [fd for fd, _ in pipes]
    for ends in pipes:
        for fd in ends:
            os.close(fd)


def test_callbacks_that_run_last_wait_for_the_others(loop, ready_pipes):
    called = []
    for number, fd in enumerate(ready_pipes):
        loop.watch(fd, lambda number=number: called.append(number), last=number < 3)

    loop.turn(1)

    assert set(called[:2]) == {3, 4}
    assert sorted(called) == [0, 1, 2, 3, 4]


def test_a_flood_gets_a_part_of_each_turn_and_each_descriptor_its_share(loop, ready_pipes, monkeypatch):
    monkeypatch.setattr(loop_module, "LAST_TIME", 0.0)
    called = []
    for number, fd in enumerate(ready_pipes):
        loop.watch(fd, lambda number=number: (called.append(number), time.sleep(0.001)), last=number < 4)

    for _ in range(8):
        loop.turn(1)

    assert called.count(4) == 8
    assert all(called.count(number) >= 2 for number in range(4))
    assert len(called) < 8 * 5


def test_a_descriptor_that_is_put_first_no_longer_waits(loop, ready_pipes):
    called = []
    for number, fd in enumerate(ready_pipes):
        loop.watch(fd, lambda number=number: called.append(number), last=number < 4)
    loop.put_first(ready_pipes[0])

    loop.turn(1)

    assert set(called[:2]) == {0, 4}
