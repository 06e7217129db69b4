"""When a node records what its workers do: often enough, and never more than needed."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest

from flota.host.channel import Channel
from flota.ledger.recorder import WorkRecorder
from flota.worker import heartbeat as worker

DAY = 24 * 3600.0


@pytest.fixture
def started(tmp_path, monkeypatch):
    """A round of ranks 4 and 5. This process is rank 5."""
    channel = Channel(2)
    plans, marks = [], {}
    for rank in (4, 5):
        log = tmp_path / f"workerlog.{rank}"
        log.write_text("header\n")
        marks[str(log)] = 0, 7
        plans.append(SimpleNamespace(worker=SimpleNamespace(rank=rank, name="trainer", logs=(str(log),))))
    monkeypatch.setenv("FLOTA_CHANNEL", channel.page_path(1))
    monkeypatch.setattr(worker, "_page", worker._Page())
    yield SimpleNamespace(channel=channel, plans=plans, marks=marks)
    channel.close()


class Recorder(WorkRecorder):
    """Keeps its events, with their times."""

    def __init__(self, started, now: float = 0.0) -> None:
        super().__init__(started, SimpleNamespace(event=self.keep), now)
        self.now = now
        self.events: list[tuple[float, str, dict[str, object]]] = []

    def keep(self, event: str, **facts: object) -> None:
        self.events.append((self.now, event, facts))

    def run(self, until: float, on_turn=lambda: None) -> None:
        """Call it at each of its deadlines."""
        while self.deadline < until:
            self.now = self.deadline
            on_turn()
            self.on_time([0, 1], self.now)


def test_a_stop_is_recorded_once(started):
    recorder = Recorder(started)
    recorder.note_stop()
    recorder.note_stop()

    assert recorder.events == [(0.0, "stopping_workers", {})]


def test_nothing_is_recorded_of_workers_that_do_not_call(started):
    recorder = Recorder(started)
    recorder.run(DAY)

    assert recorder.events == []
    assert recorder.facts_of(0) == {}


def test_a_worker_that_reports_steps_is_recorded_soon_and_then_every_ten_seconds(started):
    recorder = Recorder(started)
    recorder.run(45.0, lambda: worker.heartbeat(3))

    assert [now for now, *_ in recorder.events] == pytest.approx([2.5, 5.0, 10.0, 20.0, 30.0, 40.0])
    rows = [row for *_, facts in recorder.events for row in facts["ranks"]]
    assert [(row["rank"], row["last_step"]) for row in rows] == [(5, 3)] * 6
    assert recorder.facts_of(1)["times"]["last_step"] == 3


def test_a_long_job_is_recorded_less_often_but_misses_at_most_a_hundredth(started):
    recorder = Recorder(started)
    recorder.run(7 * DAY, lambda: worker.heartbeat(3))

    times = [now for now, *_ in recorder.events]
    assert len(times) < 800
    assert all(after - before <= max(10.001, 0.0101 * after) for before, after in pairwise(times))


def test_a_record_has_the_numbers_that_curves_are_drawn_from(started):
    worker.heartbeat(3, total=90, loss=0.123456789, bad=float("nan"), worse=float("inf"), **{"n" * 99: 1.0})
    worker.heartbeat(5, total=90, loss=0.123456789, bad=float("nan"), worse=float("inf"), **{"n" * 99: 1.0})
    recorder = Recorder(started)
    recorder.run(5.0)

    (row,) = recorder.events[0][2]["ranks"]
    assert row["numbers"] == {"loss": 0.123457, "n" * 64: 1.0} and row["total"] == 90 and row["seconds"] >= 0
    assert recorder.facts_of(1)["times"]["numbers"] == row["numbers"]


def test_a_record_has_few_numbers(started):
    worker.heartbeat(3, **{f"n{number}": number for number in range(30)})

    assert list(Recorder(started).facts_of(1)["times"]["numbers"]) == [f"n{number}" for number in range(8)]


def test_a_worker_without_news_is_not_recorded_again(started):
    worker.heartbeat(3)
    recorder = Recorder(started)
    recorder.run(DAY)

    assert len(recorder.events) == 1


def test_the_first_output_is_found_soon_after_it(started, tmp_path):
    recorder = Recorder(started, 100.0)
    recorder.run(103.0)
    (tmp_path / "workerlog.4").write_text("header\nhello\n")
    recorder.run(200.0)

    assert 103.0 <= recorder.facts_of(0)["times"]["output_at"] <= 104.0
    assert recorder.facts_of(1) == {}


def test_output_is_looked_for_rarely_if_there_is_none(started):
    checks = []
    recorder = Recorder(started)
    recorder._has_output = checks.append

    recorder.run(DAY)

    assert len(checks) / 2 < 70


def test_output_is_not_looked_for_when_all_have_written_some(started, tmp_path):
    for rank in (4, 5):
        (tmp_path / f"workerlog.{rank}").write_text("header\nhello\n")
    recorder = Recorder(started)
    recorder.run(1.0)

    assert recorder.deadline == 2.5
