"""The times of a worker's page: what the worker adds up, as the node reads it, by a clock that the tests set."""

from __future__ import annotations

import pytest

from flota.host.channel import Channel
from flota.ledger.page import NOTHING, PageTimes, decode_times, times_as_dict, times_from_dict
from flota.worker import heartbeat as worker
from flota.worker.phases import phase
from flota.worker.work_times import MOST_PHASES


class Clocked:
    """A worker and its node in one process."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.now = 0.0

    def beat(self, at: float, step: int) -> None:
        self.now = at
        worker.heartbeat(step)

    def enter(self, at: float, name: object) -> object:
        self.now = at
        mark = phase(name)
        mark.__enter__()
        return mark

    def leave(self, at: float, mark, *, error: object = None) -> None:
        self.now = at
        mark.__exit__(error, None, None)

    @property
    def times(self) -> PageTimes:
        return decode_times(self.channel.read(0))

    @property
    def phases(self) -> dict[str, float]:
        return {name: pytest.approx(seconds) for name, seconds in self.times.phases}


@pytest.fixture
def clocked(monkeypatch):
    channel = Channel(1)
    clocked = Clocked(channel)
    monkeypatch.setenv("FLOTA_CHANNEL", channel.page_path(0))
    monkeypatch.setattr(worker, "_page", worker._Page())
    monkeypatch.setattr(worker, "monotonic", lambda: clocked.now)
    yield clocked
    channel.close()


def test_nothing_is_known_before_the_first_call(clocked):
    assert clocked.times == NOTHING


def test_steps_add_up_from_the_first_to_the_last(clocked):
    for at, step in ((10.0, 5), (11.5, 6), (14.0, 7)):
        clocked.beat(at, step)

    times = clocked.times
    assert (times.opened, times.first_at, times.last_at, times.marked_at) == (10.0, 10.0, 14.0, 14.0)
    assert (times.first_step, times.last_step, times.step_seconds) == (5, 7, 4.0)


def test_a_phase_between_steps_is_not_part_of_them(clocked):
    clocked.beat(10.0, 0)
    clocked.leave(13.0, clocked.enter(11.0, "checkpoint"))
    clocked.beat(15.0, 1)

    assert (clocked.times.step_seconds, clocked.phases) == (3.0, {"checkpoint": 2.0})


def test_a_phase_before_the_first_step_is_known_as_such(clocked):
    clocked.leave(4.0, clocked.enter(1.0, "initialise"))
    clocked.beat(10.0, 0)

    assert (clocked.times.opened, clocked.times.phases_before) == (1.0, 3.0)


def test_time_belongs_to_the_innermost_phase(clocked):
    outer = clocked.enter(1.0, "evaluate")
    clocked.leave(4.0, clocked.enter(2.0, "checkpoint"))
    clocked.leave(8.0, outer)

    assert clocked.phases == {"evaluate": 5.0, "checkpoint": 2.0}


def test_a_step_inside_a_phase_does_not_end_it(clocked):
    clocked.beat(0.5, 0)
    mark = clocked.enter(1.0, "evaluate")
    clocked.beat(3.0, 1)
    clocked.leave(4.0, mark)
    clocked.beat(5.0, 2)

    assert (clocked.times.step_seconds, clocked.phases) == (1.5, {"evaluate": 3.0})


def test_a_phase_that_was_not_ended_ends_with_the_one_around_it(clocked):
    outer = clocked.enter(1.0, "evaluate")
    inner = clocked.enter(2.0, "data")
    clocked.leave(4.0, outer)
    clocked.leave(9.0, inner)

    assert (clocked.phases, clocked.times.phase) == ({"evaluate": 1.0, "data": 2.0}, "")


def test_the_open_phase_is_known_when_the_worker_dies(clocked):
    clocked.enter(2.0, "checkpoint")

    assert (clocked.times.phase, clocked.times.marked_at, clocked.phases) == ("checkpoint", 2.0, {"checkpoint": 0.0})


def test_a_complete_checkpoint_is_a_point_to_return_to(clocked):
    clocked.beat(10.0, 3)
    clocked.beat(12.0, 4)
    clocked.leave(14.0, clocked.enter(13.0, "checkpoint"))
    clocked.beat(16.0, 5)
    clocked.leave(18.0, clocked.enter(17.0, "checkpoint"), error=OSError)

    assert (clocked.times.saved_step, clocked.times.saved_seconds) == (4, 3.0)


def test_a_phase_keeps_the_numbers_of_the_last_heartbeat(clocked):
    worker.heartbeat(3, loss=0.5)
    clocked.enter(2.0, "checkpoint")

    assert clocked.channel.read(0).numbers == {"loss": 0.5}


@pytest.mark.parametrize("name", [None, 7, object(), "", "é" * 300, "a\0b", "\udcff"])
def test_any_name_is_accepted(clocked, name):
    clocked.leave(2.0, clocked.enter(1.0, name))

    assert list(clocked.phases.values()) == [1.0]


def test_phases_beyond_the_limit_are_counted_together(clocked):
    for number in range(40):
        clocked.leave(number + 1.0, clocked.enter(number, f"phase {number}"))

    assert len(clocked.phases) == MOST_PHASES
    assert sum(seconds for _, seconds in clocked.times.phases) == pytest.approx(40.0)


def test_a_phase_in_another_thread_is_ignored(clocked):
    from threading import Thread

    thread = Thread(target=lambda: clocked.leave(3.0, clocked.enter(1.0, "checkpoint")))
    thread.start()
    thread.join()

    assert clocked.times == NOTHING


def test_without_flota_a_phase_does_nothing(monkeypatch):
    monkeypatch.delenv("FLOTA_CHANNEL", raising=False)
    monkeypatch.setattr(worker, "_page", worker._Page())

    with pytest.raises(ValueError, match="of the script"), phase("checkpoint"):
        raise ValueError("of the script")


def test_an_event_carries_what_is_known(clocked):
    clocked.beat(10.0, 5)
    clocked.enter(11.25, "checkpoint")

    data = times_as_dict(clocked.times._replace(output_at=3.5))

    assert data == {
        "opened": 10.0,
        "first_at": 10.0,
        "last_at": 10.0,
        "marked_at": 11.25,
        "first_step": 5,
        "last_step": 5,
        "phase": "checkpoint",
        "output_at": 3.5,
        "phases": {"checkpoint": 0.0},
    }
    assert times_from_dict(data) == clocked.times._replace(output_at=3.5)


@pytest.mark.parametrize("value", [None, "7", -1.0, float("nan"), 10**400, [], {"checkpoint": "long"}])
def test_what_cannot_be_true_is_unknown(value):
    times = times_from_dict(dict.fromkeys(PageTimes._fields, value))

    assert times._replace(phases=(), phase="") == NOTHING


def test_a_page_with_other_content_tells_nothing(clocked):
    clocked.beat(10.0, 5)

    assert decode_times(clocked.channel.read(0)._replace(times=b"short")) == NOTHING
    assert decode_times(clocked.channel.read(0)._replace(times=b"\xff" * 90)).opened == 0.0
