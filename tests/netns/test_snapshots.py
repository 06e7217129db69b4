"""States of ranks on several hosts: agreed on, fetched from other nodes, and copied to them in time."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.launching import wait_until
from tests.netns.jobs import WORKERS, Job

SAVES = WORKERS / "saves.py"
WORDS = "--nnodes 3 --max_restart 5 --grace 2s"
TOKEN = {"FLOTA_TOKEN": "the-token-of-this-test"}  # without one, nodes do not fetch states from each other
SLOW = 100  # steps that a busy machine may do between two lines of a test


@pytest.fixture(params=["", "1"], ids=["replicated", "sharded"])
def training(job, request):
    return Training(job, request.param)


class Training:
    def __init__(self, job, sharded):
        self.job, self.sharded = job, sharded

    def start(self, *hosts, words=""):
        return self.job.start([*hosts], f"{WORDS} {words}", SAVES, env={"SHARDED": self.sharded, **TOKEN})

    def wait_for_step(self, round_, step):
        """Wait until a rank is there. Returns the step that was reached then."""
        wait_until(lambda: self._reached(round_) >= step, f"step {step} of round {round_}{self.job}")
        return self._reached(round_)

    def _reached(self, round_):
        return max((json.loads(path.read_text()) for path in self.job.stage.glob(f"at.{round_}.*")), default=0)

    def next_round(self, before):
        """The next round in which all ranks have begun, and what they began with."""
        wait_until(lambda: self._later(before), f"a round after {before}{self.job}")
        number = self._later(before)[0]
        return number, self.job.notes("began", number)

    def _later(self, before):
        rounds = {int(path.name.split(".")[1]) for path in self.job.stage.glob("began.*.*")}
        return [one for one in sorted(rounds) if one > before and len(self.job.notes("began", one)) == 3]

    def check(self, notes, reached, lost):
        """All ranks began at one step, at most `lost` before the one that was reached, each with its own state."""
        [start] = {note["start"] for note in notes.values()}
        assert max(1, reached - lost) <= start <= reached + SLOW
        totals = [sum(range(start)) * (1 + rank if self.sharded else 1) for rank in range(3)]
        assert [note["total"] for note in notes.values()] == totals
        return start

    def finish(self, round_):
        last = self._reached(round_) + SLOW
        (self.job.stage / "last.new").write_text(str(last))
        (self.job.stage / "last.new").rename(self.job.stage / "last")
        return last


def test_a_killed_rank_costs_one_step(training):
    training.start(1, 2, 3)
    reached = training.wait_for_step(0, 30)

    os.kill(training.job.notes("began", 0)[1]["pid"], signal.SIGKILL)

    round_, notes = training.next_round(0)
    training.check(notes, reached, 1)
    training.finish(round_)
    assert training.job.codes() == [0, 0, 0]


def test_the_state_of_a_lost_node_comes_back_from_another(training):
    """Of a state that all ranks have, the newest; otherwise the last step that was sent."""
    nodes = training.start(1, 2, 3)
    if training.sharded:
        training.wait_for_step(0, 30)
        wait_until(lambda: held_copies(nodes[0]), f"a copy on host1{training.job}")
    reached = training.wait_for_step(0, 30)

    for pid in [*nodes[2].survivors()]:
        os.kill(pid, signal.SIGKILL)
    training.start(3)

    round_, notes = training.next_round(0)
    training.check(notes, reached, reached if training.sharded else 1)
    training.finish(round_)
    assert training.job.codes() == [0, 0, -9, 0]


def test_a_later_job_continues_from_files_of_all_nodes(training):
    """Each node has a disk of its own. The last states are written when the workers are gone."""
    words = "--snapshot_dir states"  # below the directory of each node
    training.start(1, 2, 3, words=words)
    training.wait_for_step(0, 20)
    last = training.finish(0)
    assert training.job.codes() == [0, 0, 0]
    files = sorted(path.name for path in training.job.stage.glob("host*/states/*"))
    ranks = (0, 1, 2) if training.sharded else (0,)
    assert files == [f"train.trainer.{last}.{rank}.3.snapshot" for rank in ranks]

    again = Training(Job(training.job.lab, training.job.stage, training.job.master), training.sharded)
    for host in (1, 2, 3):
        directory = f"{training.job.stage}/host{host}/states"
        again.start(host, words=f"--snapshot_dir {directory}")

    round_, notes = again.next_round(-1)
    assert again.check(notes, last, 0) == last
    again.finish(round_)
    assert again.job.codes() == [0, 0, 0]


def test_a_job_continues_from_the_state_before_a_damaged_one(training, tmp_path):
    """A rank finds the damage when it loads its state; the next round has an older one."""
    lasts = []
    for _ in range(2):
        start_on_disks(training, tmp_path)
        training.wait_for_step(0, 20 + max([0, *lasts]))
        lasts.append(training.finish(0))
        assert training.job.codes() == [0, 0, 0]
        training = Training(Job(training.job.lab, training.job.stage, training.job.master), training.sharded)
    rank = 1 if training.sharded else 0
    [path] = tmp_path.glob(f"disk*/train.trainer.{lasts[1]}.{rank}.3.snapshot")
    data = path.read_bytes()
    path.write_bytes(data[: 1 << 16] + bytes(len(data) - (1 << 16)))

    start_on_disks(training, tmp_path)

    round_, notes = training.next_round(-1)
    assert round_ > 0
    assert training.check(notes, lasts[0], 0) == lasts[0]
    assert path.with_name(f"{path.name}.damaged").exists()
    training.finish(round_)
    assert training.job.codes() == [0, 0, 0]


def start_on_disks(training, directory):
    """Each node has a disk of its own."""
    for host in (1, 2, 3):
        training.start(host, words=f"--snapshot_dir {directory}/disk{host}")


def held_copies(node):
    """Whether the node on host 1 has a whole state of rank 2, which is on host 3."""
    for pid in node.survivors():
        for fd in _fds(pid):
            try:
                if "flota-snapshot" in os.readlink(fd) and _rank_and_steps(fd)[0] == 2:
                    return True
            except OSError:
                continue
    return False


def _fds(pid):
    try:
        return [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return []


def _rank_and_steps(path):
    from flota.worker.snapshot_layout import complete_steps
    from flota.worker.snapshot_memory import read_entries

    fd = os.open(path, os.O_RDONLY)
    try:
        entries = read_entries(fd)
    finally:
        os.close(fd)
    steps = complete_steps(entries)
    return (entries[steps[max(steps)]].rank, [*steps]) if steps else (-1, [])
