"""The channel between a node and its workers, both ends in one process."""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading

import pytest

from flota.host import channel as node
from flota.host import heartbeat_page as page
from flota.host.channel import PAGE, STOP_AT, Channel
from flota.host.heartbeat_page import NO_HEARTBEAT, POLLS, STEP_WENT_BACK, read_page
from flota.preemption.stop_step import NO_WORKERS, NOW, agreed_step, read_progress
from flota.worker import heartbeat as worker
from flota.worker.stop_callbacks import on_stop
from flota.worker.work_times import MOST_PHASES, TIMES, WorkTimes


@pytest.fixture
def channel(monkeypatch):
    """The worker is the second of two."""
    made = Channel(2)
    monkeypatch.setenv("FLOTA_CHANNEL", made.page_path(1))
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


def test_the_total_of_steps_stays_until_another_is_reported(channel):
    worker.heartbeat(3)
    assert channel.read(1).total == 0
    worker.heartbeat(4, total=1000)
    worker.heartbeat(5, loss=0.5)
    assert channel.read(1).total == 1000
    worker.heartbeat(6, total=2000.0)
    assert channel.read(1).total == 2000


@pytest.mark.parametrize("total", ["many", float("inf"), float("nan"), object(), -5])
def test_a_step_is_reported_without_a_total_that_is_not_one(channel, total):
    worker.heartbeat(3, total=1000)
    worker.heartbeat(4, total=total, loss=0.5)
    beat = channel.read(1)
    assert (beat.step, beat.total, beat.numbers) == (4, 0, {"loss": 0.5})


@pytest.mark.parametrize("size", [0, 3 * PAGE])
def test_a_worker_cannot_resize_the_memory(channel, size):
    worker.heartbeat(41)
    path = channel.page_path(1).rpartition(":")[0]

    with pytest.raises(PermissionError):
        os.truncate(path, size)

    assert channel.read(1).step == 41


PLACED = ("PAGE", "SLOTS", "SLOT_SIZE", "CHECKSUM", "FIELDS", "STOP_AT", "STOP", "STEP_0")


@pytest.mark.parametrize("name", [*PLACED, "NO_STEP", "POLLS", "WANTS_SIGNAL", "STEP_WENT_BACK"])
def test_both_ends_have_the_same_layout(name):
    own = node if hasattr(node, name) else page

    assert getattr(worker, name) == getattr(own, name)


def largest_times():
    times = WorkTimes()
    for number in range(99):
        times.enter(f"{number}{'é' * 99}", 0.0)
    assert len(times.phases) == MOST_PHASES
    return len(times.pack())


def test_what_a_worker_writes_fits_before_what_the_node_does():
    assert struct.calcsize(page.CHECKSUM) == page.FIELDS_AT
    assert page.FIELDS_AT + struct.calcsize(page.FIELDS) == page.FIELDS_END
    assert page.FIELDS_END + largest_times() + worker.LARGEST_NUMBERS <= page.SLOT_SIZE
    first, second = page.SLOTS
    assert first + page.SLOT_SIZE <= second <= node.STOP_AT - page.SLOT_SIZE
    assert node.STOP_AT + struct.calcsize(node.STOP) <= node.PAGE


def test_the_nodes_word_is_one_that_processors_store_at_once():
    assert struct.calcsize(node.STOP) == 8
    assert node.STOP_AT % 8 == node.PAGE % 8 == 0


def at_times(monkeypatch, *times):
    clock = iter(times)
    monkeypatch.setattr(worker, "monotonic", lambda: float(next(clock)))


def test_the_pace_is_known_after_two_steps(channel, monkeypatch):
    at_times(monkeypatch, 0, 4)
    worker.heartbeat(0)
    assert channel.read(1).seconds == 0.0
    worker.heartbeat(2)
    assert channel.read(1).seconds == pytest.approx(2.0), "two steps in four seconds"


def test_a_pause_does_not_change_the_pace(channel, monkeypatch):
    times = [step * 0.01 for step in range(15)]
    at_times(monkeypatch, *times, times[-1] + 60)
    for step in range(16):
        worker.heartbeat(step)
    assert channel.read(1).seconds == pytest.approx(0.01)


def test_what_was_fast_long_ago_is_not_the_pace_any_more(channel, monkeypatch):
    times = [step * 0.001 for step in range(5)]
    at_times(monkeypatch, *times, *(1.0 + step for step in range(20)))
    for step in range(25):
        worker.heartbeat(step)
    assert channel.read(1).seconds == pytest.approx(1.0)


@pytest.mark.parametrize(
    "odd", [{"loss": object()}, {"loss": "0.5"}, {"n" * 300: 1.0}, {str(i): 1.0 for i in range(999)}]
)
def test_whatever_is_passed_nothing_is_raised_and_the_step_arrives(channel, odd):
    worker.heartbeat(5, **odd)
    assert channel.read(1).step == 5
    assert not channel.memory[PAGE + STOP_AT : 2 * PAGE].strip(b"\0"), "the node's word is the node's"


def test_a_step_that_is_not_a_number_is_left_out(channel):
    worker.heartbeat(1)
    worker.heartbeat("two")
    assert channel.read(1).step == 1


def test_what_is_not_a_list_of_numbers_is_read_as_none(channel, monkeypatch):
    monkeypatch.setattr(worker, "_pack_numbers", lambda _: b"\xff" * 20)
    worker.heartbeat(1, loss=1.0)
    assert (channel.read(1).step, channel.read(1).numbers) == (1, {})


@pytest.mark.parametrize("byte", range(page.FIELDS_END + struct.calcsize(TIMES) + 13))
def test_what_is_not_whole_is_not_taken_for_what_a_worker_said(channel, byte):
    """As a node sees it while the worker writes, in whatever order, or after it has died of that."""
    worker.heartbeat(255, loss=1.0)
    before = bytes(channel.memory)
    worker.heartbeat(256, loss=2.0)
    changed = [at for at in range(len(before)) if before[at] != channel.memory[at]]
    place = PAGE + max(place for place in page.SLOTS if PAGE + place <= changed[0])

    channel.memory[place + byte] ^= 0xFF

    assert channel.read(1)[1:] == (255, 0, channel.read(1).seconds, {"loss": 1.0}, 0, channel.read(1).times)


def test_threads_that_tell_steps_at_one_time_leave_something_whole(channel):
    def beat():
        for step in range(2000):
            worker.heartbeat(step, loss=0.5)

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=beat) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)

    assert channel.read(1).numbers == {"loss": 0.5}


def test_invalid_content_is_ignored(channel):
    channel.memory[PAGE : 2 * PAGE] = b"\xff" * PAGE
    assert channel.read(1) == page.NO_HEARTBEAT


def test_another_process_reads_what_a_worker_wrote_last(channel):
    assert read_page(channel.page_path(1)) == NO_HEARTBEAT
    worker.heartbeat(40, loss=0.5)
    worker.heartbeat(41, loss=0.25)
    assert read_page(channel.page_path(1)) == channel.read(1)
    assert read_page(channel.page_path(1))[1:3] == (41, 0)
    assert read_page(channel.page_path(0)) == NO_HEARTBEAT


@pytest.mark.parametrize(
    "path", ["", "nonsense", "/nowhere:0", "/proc/self/fd/99999:0", "{page}:1", "{page}:x", "{page}:-1", "{short}:0"]
)
def test_without_a_page_nothing_is_read(tmp_path, path):
    (tmp_path / "page").write_bytes(bytes(PAGE))
    (tmp_path / "short").write_bytes(bytes(100))
    assert read_page(path.format(page=tmp_path / "page", short=tmp_path / "short")) == NO_HEARTBEAT


def test_other_processes_ignore_a_page_with_invalid_content(channel):
    channel.memory[PAGE : 2 * PAGE] = b"\xff" * PAGE
    assert read_page(channel.page_path(1)) == NO_HEARTBEAT


def test_a_worker_that_calls_should_stop_can_be_asked_to_stop(channel):
    assert channel.read(1).flags == 0
    assert worker.should_stop() is False
    assert channel.read(1).flags == POLLS


def test_all_workers_stop_at_the_requested_step(channel):
    worker.heartbeat(10)
    channel.request_stop(1, 12)
    assert not worker.should_stop()
    worker.heartbeat(12)
    assert worker.should_stop()


def test_steps_that_start_again_do_not_show_how_far_a_worker_is(channel):
    for step in (0, 1, 2):
        worker.heartbeat(step)
    worker.should_stop()
    assert read_progress(channel, [1])[:2] == (True, 2)
    worker.heartbeat(0)
    assert read_progress(channel, [1]).step == NOW
    assert channel.read(1).flags == POLLS | STEP_WENT_BACK
    worker.heartbeat(2)
    assert read_progress(channel, [1]).step == NOW, "that may be the last step of every epoch"
    worker.heartbeat(3)
    assert read_progress(channel, [1]).step == 3, "a state of before was loaded, and training has come beyond it"


def test_a_step_that_will_never_come_is_not_waited_for(channel):
    worker.heartbeat(2)
    channel.request_stop(1, 7)
    assert not worker.should_stop()
    worker.heartbeat(0)
    assert worker.should_stop()


@pytest.mark.parametrize(("told", "heard"), [(NOW, NOW), (0, 0), (7, 7), (NO_WORKERS, NOW)])
def test_the_nodes_request_is_read_at_any_step(channel, told, heard):
    worker.heartbeat(0)
    assert worker._page.stop_step() is None
    channel.request_stop(1, told)
    assert worker._page.stop_step() == heard


def test_without_steps_at_once(channel):
    assert not worker.should_stop()
    channel.request_stop(1)
    assert worker.should_stop()


@pytest.mark.parametrize(
    "value", ["", "/nowhere:0", "/proc/self/fd/99999:0", "nonsense", "{short}:0", "{page}:1", "{page}:²", "{page}:-1"]
)
def test_without_a_node_nothing_happens(monkeypatch, tmp_path, value):
    (tmp_path / "short").write_bytes(bytes(100))
    (tmp_path / "page").write_bytes(bytes(PAGE))
    monkeypatch.setenv("FLOTA_CHANNEL", value.format(short=tmp_path / "short", page=tmp_path / "page"))
    monkeypatch.setattr(worker, "_page", worker._Page())
    before = signal.getsignal(signal.SIGTERM)
    worker.heartbeat(1, loss=0.5)
    assert worker.should_stop() is False
    on_stop(lambda: None)
    assert signal.getsignal(signal.SIGTERM) == before


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
        ([NO_WORKERS, 5], 0.0, 1.0, 7),
        ([NO_WORKERS], 0.0, 1.0, NOW),
    ],
)
def test_the_agreed_step_is_one_that_no_worker_can_have_passed(steps, pace, notice, agreed):
    assert agreed_step(steps, pace, notice) == agreed
