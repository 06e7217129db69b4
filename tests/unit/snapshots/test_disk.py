"""States in a directory."""

from __future__ import annotations

import os

import pytest

from flota.errors.snapshots import UnwritableSnapshotDir
from flota.snapshots.agreement import ALL_RANKS, HeldSnapshot
from flota.snapshots.disk import (
    KEEP,
    find_file,
    find_states,
    forget_after,
    newest_unwritten,
    prepare_directory,
    set_broken_aside,
    set_damaged_aside,
    write_file,
)
from flota.snapshots.memory import create_memory
from flota.snapshots.state_file import StateFile
from flota.worker.snapshot_layout import BUFFER_ALIGNMENT, complete_steps
from flota.worker.snapshot_memory import RankMemory, open_state
from flota.worker.snapshot_tree import Flattened


@pytest.fixture
def rank(tmp_path):
    """Makes the memory of a rank with states of these steps."""
    made = []

    def make(number, *steps, world=2, sharded=True):
        made.append(create_memory())
        for step in steps:
            state = Flattened()
            state.add_part("n", [number, step])
            RankMemory(f"/proc/self/fd/{made[-1]}", 1 << 30, 1).write(
                step, state, state.to_json("train"), rank=number, world=world, sharded=sharded
            )
        return StateFile("trainer", number, made[-1])

    yield make
    for fd in made:
        os.close(fd)


def write(directory, file):
    """Write all its states, as a copier does."""
    entries = file.entries()
    for buffer in complete_steps(entries).values():
        entry = entries[buffer]
        data = os.pread(file.fd, entry.size, entry.offset)
        write_file(str(directory), file, entry, iter([data[:10], data[10:]]))


def test_a_state_is_written_as_it_is_in_memory(tmp_path, rank):
    write(tmp_path, rank(1, 7))

    path = find_file(str(tmp_path), "trainer", 1, 7)

    assert open_state(path, 7)[1].part("n") == [1, 7]
    assert find_file(str(tmp_path), "trainer", 0, 7) == ""


def test_old_files_are_removed(tmp_path, rank):
    write(tmp_path, rank(1, 7, 8, 9))

    assert len(os.listdir(tmp_path)) == KEEP
    assert find_states(str(tmp_path)) == (HeldSnapshot("trainer", 1, 2, sharded=True, steps=(8, 9)),)


def test_the_newest_step_that_all_ranks_have_is_kept_when_one_ceases_to_write(tmp_path, rank):
    write(tmp_path, rank(1, 7, 8))
    for step in range(7, 30):
        write(tmp_path, rank(0, step))

    assert find_states(str(tmp_path)) == (
        HeldSnapshot("trainer", ALL_RANKS, 2, sharded=True, steps=(8,)),
        HeldSnapshot("trainer", 0, 2, sharded=True, steps=(28, 29)),
        HeldSnapshot("trainer", 1, 2, sharded=True, steps=(7,)),
    )


def test_steps_with_the_parts_of_all_ranks_are_listed_once(tmp_path, rank):
    write(tmp_path, rank(0, 7, 8))
    write(tmp_path, rank(1, 8, 9))

    assert find_states(str(tmp_path)) == (
        HeldSnapshot("trainer", ALL_RANKS, 2, sharded=True, steps=(8,)),
        HeldSnapshot("trainer", 0, 2, sharded=True, steps=(7,)),
        HeldSnapshot("trainer", 1, 2, sharded=True, steps=(9,)),
    )


def test_a_state_that_all_ranks_have_is_listed_as_rank_0s(tmp_path, rank):
    write(tmp_path, rank(0, 7, sharded=False))

    assert find_states(str(tmp_path)) == (HeldSnapshot("trainer", 0, 2, sharded=False, steps=(7,)),)


def flip_first_page(data):
    return data[:300] + bytes([data[300] ^ 1]) + data[301:]


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:5000], lambda _: b"", lambda data: bytes(len(data)), flip_first_page],
    ids=["truncated", "empty", "zeroed", "first-page"],
)
def test_a_file_without_its_state_is_set_aside(tmp_path, rank, damage):
    write(tmp_path, rank(0, 7, 8))
    path = tmp_path / "train.trainer.8.0.2.snapshot"
    path.write_bytes(damage(path.read_bytes()))
    left = path.read_bytes()

    assert [one.steps for one in find_states(str(tmp_path))] == [(7,)]
    assert [set_broken_aside(str(tmp_path)) for _ in range(2)] == [[str(path)], []]

    assert sorted(os.listdir(tmp_path)) == ["train.trainer.7.0.2.snapshot", f"{path.name}.damaged"]
    assert (tmp_path / f"{path.name}.damaged").read_bytes() == left


def test_a_file_whose_bytes_were_lost_is_set_aside(tmp_path, rank):
    write(tmp_path, rank(0, 7, 8))
    seven, eight = (find_file(str(tmp_path), "trainer", 0, step) for step in (7, 8))
    with open(eight, "r+b") as file:
        file.seek(BUFFER_ALIGNMENT)
        file.write(bytes(50))

    assert [set_damaged_aside(path) for path in (seven, eight, eight)] == [False, True, False]

    assert [one.steps for one in find_states(str(tmp_path))] == [(7,)]
    assert os.path.exists(f"{eight}.damaged")


def test_only_what_is_new_is_written_at_the_end(tmp_path, rank):
    first, second = rank(0, 7, sharded=False), rank(1, 7, sharded=False)

    due = [(file.rank, entry.step) for file, _, entry in newest_unwritten(str(tmp_path), [first, second])]
    write(tmp_path, first)

    assert due == [(0, 7)]
    assert list(newest_unwritten(str(tmp_path), [first, second])) == []


def test_a_pipe_or_a_link_is_left_alone(tmp_path, rank):
    file = rank(0, 7, 8)
    write(tmp_path, file)
    os.mkfifo(tmp_path / "train.trainer.2.0.2.snapshot")
    (tmp_path / "train.trainer.1.0.2.snapshot").symlink_to("train.trainer.7.0.2.snapshot")
    (tmp_path / "train.trainer.9.0.2.snapshot").symlink_to("train.trainer.7.0.2.snapshot")

    write(tmp_path, rank(0, 8))
    forget_after(str(tmp_path), "trainer", 7)

    assert set_broken_aside(str(tmp_path)) == []
    assert [one.steps for one in find_states(str(tmp_path))] == [(7,)]
    assert find_file(str(tmp_path), "trainer", 0, 9) == ""
    assert sorted(os.listdir(tmp_path)) == [f"train.trainer.{step}.0.2.snapshot" for step in (1, 2, 7, 9)]


def test_a_damaged_state_is_written_again_and_takes_no_place(tmp_path, rank):
    for step in (1, 7, 98, 99):
        (tmp_path / f"train.trainer.{step}.0.2.snapshot").write_bytes(b"x")
    file = rank(0, 5, 6, 7)

    due = [entry.step for _, _, entry in newest_unwritten(str(tmp_path), [file])]
    write(tmp_path, file)

    assert due == [7]
    assert [one.steps for one in find_states(str(tmp_path))] == [(6, 7)]
    assert len(set_broken_aside(str(tmp_path))) == 3


def test_states_after_the_step_that_is_loaded_are_forgotten(tmp_path, rank):
    for number in range(2):
        write(tmp_path, rank(number, 7, 8))

    forget_after(str(tmp_path), "trainer", 7)

    assert [one.steps for one in find_states(str(tmp_path))] == [(7,)]


def test_a_directory_is_made_and_checked_at_the_start(tmp_path):
    prepare_directory(f"{tmp_path}/new/states")
    left = tmp_path / "new/states/.train.trainer.7.0.2.snapshot.12.34.0123abcd"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    prepare_directory(f"{tmp_path}/new/states")

    assert os.listdir(tmp_path / "new/states") == []


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("file", "it is not a directory"),
        ("file/below", "Not a directory"),
        ("/proc/none", "No such file"),
        ("/sys", ""),
    ],
)
def test_a_directory_that_cannot_be_written_is_one_error(tmp_path, path, why):
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(UnwritableSnapshotDir, match=f"cannot write to the snapshot directory `.*{path}`: {why}"):
        prepare_directory(str(tmp_path / path))
