"""Workers are told a step that none of them has passed, however slow it is to write down that they were."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest

from flota.host.channel import Channel
from flota.job.spec import LogSpec, RestartPolicy
from flota.run.single_node import SingleNode
from flota.supervise.events import WorkerStarted
from flota.supervise.supervisor import Supervisor
from flota.worker import heartbeat as worker


class SlowConsole:
    """While it writes, the worker trains on."""

    def __init__(self):
        self.said = []
        self.own_log = SimpleNamespace(file_only=False)

    def record(self, *_):
        worker.heartbeat(1000)

    def say(self, _level, words):
        self.said.append(words)
        worker.heartbeat(5000)


@pytest.fixture
def channel(monkeypatch):
    made = Channel(1)
    monkeypatch.setenv("FLOTA_CHANNEL", made.page_path(0))
    monkeypatch.setattr(worker, "_page", worker._Page())
    monkeypatch.setattr(worker, "monotonic", iter(range(1, 100)).__next__)
    worker.heartbeat(0)
    worker.should_stop()
    yield made
    made.close()


@pytest.fixture
def supervisor():
    made = Supervisor(1, RestartPolicy(), 30.0, 0.0)
    made.step(WorkerStarted(0, 4711, 0.0), 0.0)
    return made


def test_the_steps_are_read_when_nothing_is_left_to_do_but_tell(channel, supervisor):
    alone = SingleNode.__new__(SingleNode)
    alone.spec = SimpleNamespace(grace=30.0, preempt_timeout=None, log=LogSpec("log"))
    alone.started = None
    alone.channel, alone.round = channel, SimpleNamespace(is_pending=False)
    alone.supervisor, alone.in_round, alone._pending_restart = supervisor, True, None
    alone.hang_watch = alone.warm = None
    alone.evidence = SimpleNamespace(note=lambda _: None)
    alone.console, alone.stopped_by, alone.time_limits = SlowConsole(), "SIGTERM", SimpleNamespace(timed_out="")

    alone.stop(signal.SIGTERM)

    step = worker._page.stop_step()
    assert step > 1000, "the worker was there when it was asked"
    assert alone.console.said == [f"SIGTERM received; asking all ranks to save and exit at step {step} (up to 30 s)"]
