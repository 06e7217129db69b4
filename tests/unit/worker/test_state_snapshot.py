"""flota.snapshot without a node: what is loaded where, and what is an error."""

from __future__ import annotations

import os
import re

import pytest

import flota.worker.state_snapshot as module
from flota.errors import FlotaError
from flota.errors.snapshots import (
    BadSnapshotName,
    BadStep,
    DamagedSnapshot,
    PartMissing,
    SecondSnapshot,
    WorldChanged,
)
from flota.snapshots.memory import create_memory
from flota.worker.environment import Env
from flota.worker.snapshot_layout import BUFFER_ALIGNMENT


class Model:
    def __init__(self, weight=0):
        self.weight = weight

    def state_dict(self):
        return {"weight": self.weight}

    def load_state_dict(self, state):
        self.weight = state["weight"]


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A worker that starts, in one directory."""

    def start(rank=0, world=1, **options):
        monkeypatch.setattr(module, "_current", None)
        monkeypatch.setattr(module, "env", lambda: Env(rank=rank, world_size=world))
        return module.snapshot("train", directory=str(tmp_path), **options)

    return start


def test_each_part_is_loaded_where_it_can_be_changed(start):
    start().save(3, model=Model(5), table={"a": [1]}, rows=[1, 2], pair=(1, 2), left_out="x")
    model, table, rows = Model(), {"b": 2}, [0]

    snap = start()
    step = snap.load(model=model, table=table, rows=rows, pair=(0, 0))

    assert (step, model.weight, table, rows) == (3, 5, {"a": [1]}, [1, 2])
    assert (snap.value("pair"), snap.value("left_out"), snap.value("none", 9)) == ((1, 2), "x", 9)


def test_without_a_state_training_begins_at_zero(start):
    model = Model(1)

    assert start().load(model=model) == 0
    assert model.weight == 1


def test_other_steps_are_skipped(start):
    snap = start(every=10)
    for step in range(1, 26):
        snap.save(step, n=step)

    again = start()
    assert (again.load(), again.value("n")) == (20, 20)


def test_rank_0_writes_what_all_ranks_have(start):
    start(rank=1, world=2).save(4, n=1)
    assert start(rank=1, world=2).load() == 0

    start(rank=0, world=2).save(4, n=0)
    assert start(rank=1, world=2).load() == 4
    assert start(rank=2, world=3).load() == 4


def test_parts_of_ranks_are_loaded_when_all_are_there(start):
    for step in (4, 5):
        start(rank=0, world=2, sharded=True).save(step, n=[step, 0])
    start(rank=1, world=2, sharded=True).save(4, n=[4, 1])

    snap = start(rank=1, world=2, sharded=True)

    assert (snap.load(), snap.value("n")) == (4, [4, 1])


def test_a_rank_that_ceases_to_write_does_not_cost_all_steps(start):
    for step in range(1, 9):
        start(rank=0, world=2, sharded=True).save(step, n=step)
        if step <= 3:
            start(rank=1, world=2, sharded=True).save(step, n=step)

    assert [start(rank=rank, world=2, sharded=True).load() for rank in (0, 1)] == [3, 3]


def test_parts_of_another_number_of_ranks_need_a_function(start):
    for rank in (0, 1):
        start(rank=rank, world=2, sharded=True).save(4, model=Model(10 + rank))
    model = Model()

    with pytest.raises(WorldChanged, match="parts of 2 ranks, and the job has 1 now"):
        start(sharded=True).load(model=model)

    def reshard(parts, env):
        assert env.world_size == 1
        return {"model": {"weight": sum(one["model"]["weight"] for one in parts)}}

    assert start(sharded=True, reshard=reshard).load(model=model) == 4
    assert model.weight == 21


def test_a_damaged_part_of_another_number_of_ranks_is_not_tried_again(start, tmp_path):
    for step in (4, 5):
        for rank in (0, 1):
            start(rank=rank, world=2, sharded=True).save(step, n=step)
    lose_bytes(tmp_path, "train.trainer.5.1.2.snapshot")

    def load():
        return start(sharded=True, reshard=lambda parts, _: parts[0]).load()

    with pytest.raises(DamagedSnapshot):
        load()

    assert load() == 4


@pytest.mark.parametrize("rank", [0, 1])
def test_rank_0_says_once_where_files_are_and_which_one_it_loads(start, tmp_path, capsys, rank):
    def run():
        snap = start(rank=rank, world=2, sharded=True)
        steps = [snap.load(), snap.load()]
        for step in (4, 5):
            snap.save(step, n=1)
        return steps, capsys.readouterr().err

    start(rank=1 - rank, world=2, sharded=True).save(5, n=1)
    capsys.readouterr()
    first, second = run(), run()

    path = f"{tmp_path}/train.trainer.5.0.2.snapshot"
    writing = f"flota: writing snapshots to {tmp_path}; the next run continues from them\n"
    loading = (
        f"flota: continuing from step 5 of {path} (to start from step 0, remove {tmp_path}/train.trainer.*.snapshot)\n"
    )
    missing = (
        f"flota: warning: starting from step 0: {tmp_path} has no step with the parts of all ranks (step 5: 1 of 2)\n"
    )
    assert first == ([0, 0], missing + writing if rank == 0 else "")
    assert second == ([5, 5], loading + writing if rank == 0 else "")


def test_the_first_save_removes_what_a_killed_one_left(start, tmp_path):
    left = tmp_path / ".train.trainer.7.0.1.snapshot.12.34.0123abcd"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))

    start().save(8, n=1)

    assert [path.name for path in tmp_path.iterdir()] == ["train.trainer.8.0.1.snapshot"]


def lose_bytes(directory, pattern):
    """What a loss of power may leave of a file whose size is right."""
    for path in directory.glob(pattern):
        data = path.read_bytes()
        path.write_bytes(data[:BUFFER_ALIGNMENT] + bytes(len(data) - BUFFER_ALIGNMENT))


@pytest.mark.parametrize("lose", [lose_bytes, lambda at, name: [one.write_bytes(b"x") for one in at.glob(name)]])
def test_the_state_before_a_damaged_one_is_loaded(start, tmp_path, capsys, lose):
    for step in (4, 5):
        start().save(step, model=Model(step))
    capsys.readouterr()
    lose(tmp_path, "*.5.0.1.snapshot")
    model = Model()

    first = start(rank=1, world=2).load(model=model), model.weight, capsys.readouterr().err
    second = start(rank=0, world=2).load(model=model), model.weight, capsys.readouterr().err

    assert first == (4, 4, "")
    assert second[:2] == (4, 4)
    assert second[2].count("continuing from step 4 of ") == 1
    assert second[2].count("train.trainer.5.0.1.snapshot.damaged, and an older state is used") == 1
    assert sorted(path.name.partition("trainer.")[2] for path in tmp_path.iterdir()) == [
        "4.0.1.snapshot",
        "5.0.1.snapshot.damaged",
    ]


def test_a_damaged_part_is_an_error_and_the_next_attempt_loads_older_ones(start, tmp_path):
    """Other ranks, whose parts are whole, cannot know it."""
    for step in (4, 5):
        for rank in (0, 1):
            start(rank=rank, world=2, sharded=True).save(step, n=[step, rank])
    lose_bytes(tmp_path, "*.5.1.2.snapshot")

    with pytest.raises(DamagedSnapshot, match=r"trainer\.5\.1\.2\.snapshot"):
        start(rank=1, world=2, sharded=True).load()

    assert [start(rank=rank, world=2, sharded=True).load() for rank in (0, 1)] == [4, 4]


def test_a_missing_part_is_named(start):
    start().save(1, model=Model(1))

    with pytest.raises(PartMissing, match="has no part `optim`, only model"):
        start().load(optim=Model())


def test_errors_about_the_parts_in_memory_do_not_name_its_path(start, monkeypatch):
    fd = create_memory()
    path = f"/proc/{os.getpid()}/fd/{fd}"

    def begin(source="", **place):
        monkeypatch.setenv("FLOTA_SNAPSHOT", f"{path}:")
        monkeypatch.setenv("FLOTA_SNAPSHOT_FROM", source)
        return start(sharded=True, **place)

    begin(world=2).save(4, n=1)

    with pytest.raises(
        WorldChanged, match=r"^the snapshot in memory has the parts of 2 ranks, and the job has 3 now\n"
    ):
        begin(f"{path}:4:2", world=3).load()
    with pytest.raises(WorldChanged, match=r"^the snapshot in memory has the parts"):
        begin(":4:2", world=3).load()
    with pytest.raises(PartMissing, match=r"^the snapshot in memory has no part `optim`, only n\n"):
        begin(f"{path}:4:2", world=2).load(optim=Model())
    os.close(fd)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", 3, None, "ä"])
def test_a_name_that_is_not_a_word_is_refused(name):
    with pytest.raises(BadSnapshotName):
        module.snapshot(name)


def test_a_worker_has_one_snapshot(start):
    snap = start()

    assert module.snapshot("train") is snap
    with pytest.raises(SecondSnapshot):
        module.snapshot("other")


@pytest.mark.parametrize("step", [-1, float("nan"), 5.0, "7", True, None, 1 << 62])
def test_a_step_that_is_not_a_number_of_steps_is_refused_with_its_value(start, step):
    for snap in (start(), start(every=10), start(rank=1, world=2)):
        with pytest.raises(BadStep, match=re.escape(f"not `{step!r}`")) as caught:
            snap.save(step, n=1)

    assert isinstance(caught.value, ValueError)
    assert start().load() == 0


def test_a_number_of_a_framework_is_a_step(start):
    class Number:
        def __index__(self):
            return 7

    start().save(Number(), n=1)

    assert start().load() == 7


def test_every_error_is_one_of_flota(start):
    with pytest.raises(FlotaError, match=r"cannot save `model\.weight`"):
        start().save(1, model=Model(object()))


@pytest.mark.parametrize(
    ("text", "source"), [("", ("", -1, 0)), ("/proc/1/fd/3:7:2", ("/proc/1/fd/3", 7, 2)), (":7:2", ("", 7, 2))]
)
def test_the_source_is_read_from_its_variable(text, source):
    assert module.parse_source(text) == source
