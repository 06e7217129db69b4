"""A file with states of one rank, as a node reads it."""

from __future__ import annotations

import os

import pytest

from flota.errors.snapshots import BrokenSnapshot
from flota.snapshots.agreement import HeldSnapshot
from flota.snapshots.memory import create_memory
from flota.snapshots.state_file import StateFile
from flota.worker.snapshot_layout import PAGE, read_stride
from flota.worker.snapshot_memory import RankMemory, open_state
from flota.worker.snapshot_tree import Flattened


@pytest.fixture
def file():
    fd = create_memory()
    yield StateFile("trainer", 1, fd)
    os.close(fd)


def save(file, *steps, world=2):
    for step in steps:
        state = Flattened()
        RankMemory(f"/proc/self/fd/{file.fd}", 1 << 30, 1).write(
            step, state, state.to_json("train"), rank=1, world=world, sharded=True
        )


def test_an_empty_memory_holds_nothing(file):
    file.forget_after(3)
    file.keep(4)

    assert file.held() is None
    assert os.fstat(file.fd).st_size == 0


def test_states_of_the_newest_number_of_ranks_are_held(file):
    save(file, 1, world=4)
    save(file, 2, 3)

    assert file.held() == HeldSnapshot("trainer", 1, 2, sharded=True, steps=(2, 3))


def test_later_states_are_forgotten(file):
    save(file, 1, 2, 3)

    file.forget_after(2)

    assert file.held().steps == (1, 2)


def test_the_worker_is_asked_to_keep_states(file):
    save(file, 1)

    strides = []
    for stride in (16, 0):
        file.keep(stride)
        strides.append(read_stride(os.pread(file.fd, PAGE, 0)))

    assert strides == [16, 0]


def test_a_state_that_cannot_be_fetched_is_an_error_for_the_worker(file):
    file.fail(7)

    with pytest.raises(BrokenSnapshot, match="state of step 7 could not be fetched"):
        open_state(f"/proc/self/fd/{file.fd}", 7)
    assert not file.has(7)
    save(file, 1)
    assert file.has(1)


def test_the_memory_cannot_shrink(file):
    save(file, 1)

    with pytest.raises(PermissionError):
        os.ftruncate(file.fd, 0)
