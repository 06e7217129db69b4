"""A rank's memory, in files: what it takes, what stays after each write, and what is too large."""

from __future__ import annotations

import os

import pytest

from flota.errors.snapshots import BrokenSnapshot
from flota.worker.snapshot_layout import BUFFER_ALIGNMENT, STRIDE_AT, complete_steps, pack_stride
from flota.worker.snapshot_memory import RankMemory, TooLarge, open_state
from flota.worker.snapshot_tree import Flattened


@pytest.fixture
def path(tmp_path):
    (tmp_path / "memory").touch()
    return str(tmp_path / "memory")


def save(memory, step, *, sharded=False, **parts):
    state = Flattened()
    for name, value in parts.items():
        state.add_part(name, value)
    memory.write(step, state, state.to_json("train"), rank=1, world=2, sharded=sharded)


def steps(memory):
    return list(complete_steps(memory.entries()))


def test_the_last_states_are_kept(path):
    memory = RankMemory(path, 1 << 30, 1)
    for step in range(1, 6):
        save(memory, step, n=step)

    assert steps(memory) == [3, 4, 5]
    entry, tree = open_state(path, 4)
    assert (tree.part("n"), tree.name, entry.rank, entry.world) == (4, "train", 1, 2)


def test_states_that_are_sent_are_kept_if_ranks_have_parts(path):
    memory = RankMemory(path, 1 << 30, 1)
    save(memory, 1, n=1)
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), pack_stride(8), STRIDE_AT)

    for step in range(2, 24):
        save(memory, step, sharded=True, n=step)

    assert steps(memory) == [8, 16, 22, 23]
    save(memory, 24, sharded=True, n=24)
    assert steps(memory) == [8, 16, 23, 24]
    save(memory, 25, sharded=True, n=25)
    assert steps(memory) == [16, 23, 24, 25]


def test_a_state_that_grows_moves_and_the_others_stay(path):
    memory = RankMemory(path, 1 << 30, 1)
    for step in range(1, 4):
        save(memory, step, n=step)

    save(memory, 4, text="x" * 3 * BUFFER_ALIGNMENT)

    assert steps(memory) == [2, 3, 4]
    assert len(open_state(path, 4)[1].part("text")) == 3 * BUFFER_ALIGNMENT
    assert open_state(path, 3)[1].part("n") == 3


def test_training_that_goes_back_forgets_later_states(path):
    memory = RankMemory(path, 1 << 30, 1)
    for step in (7, 8, 9):
        save(memory, step, n=step)

    save(memory, 8, n=80)

    assert steps(memory) == [8]
    assert open_state(path, 8)[1].part("n") == 80


def test_a_worker_that_is_restarted_continues_in_the_same_memory(path):
    save(RankMemory(path, 1 << 30, 1), 1, n=1)
    size = os.path.getsize(path)

    again = RankMemory(path, 1 << 30, 1)
    save(again, 2, n=2)

    assert steps(again) == [1, 2]
    assert os.path.getsize(path) == size


def test_what_is_too_large_takes_no_memory(path):
    memory = RankMemory(path, 3 * BUFFER_ALIGNMENT - 1, 1)

    with pytest.raises(TooLarge) as refused:
        save(memory, 1, n=1)

    assert refused.value.args == (3 * BUFFER_ALIGNMENT, 3 * BUFFER_ALIGNMENT - 1)
    assert os.path.getsize(path) == 0


def test_a_state_that_is_not_there_is_one_error(path):
    save(RankMemory(path, 1 << 30, 1), 1, n=1)

    with pytest.raises(BrokenSnapshot, match="no state of step 2"):
        open_state(path, 2)
    with pytest.raises(BrokenSnapshot, match="it is not there"):
        open_state(f"{path}x", 1)
