"""Snapshots as files: whole or not there, and only the newest."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from flota.worker.snapshot_files import (
    SavedFile,
    list_files,
    parse_filename,
    remove_old,
    remove_unfinished,
    replace_file,
    write_state,
)
from flota.worker.snapshot_memory import open_state
from flota.worker.snapshot_tree import Flattened


def write(directory, step, rank=0):
    state = Flattened()
    state.add_part("n", step)
    file = SavedFile("train", "trainer", step, rank, 2)
    write_state(str(directory), file, state, state.to_json("train"), sharded=True)
    return f"{directory}/{file.filename}"


def test_a_state_comes_back_from_its_file(tmp_path):
    path = write(tmp_path / "new", 7, rank=1)

    entry, tree = open_state(path, 7)

    assert tree.part("n") == 7
    assert (entry.rank, entry.world, entry.sharded) == (1, 2, 1)
    assert os.listdir(tmp_path / "new") == ["train.trainer.7.1.2.snapshot"]


def test_a_write_that_fails_leaves_nothing(tmp_path):
    def fail(fd):
        os.write(fd, b"half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        replace_file(str(tmp_path), "it", fail)

    assert os.listdir(tmp_path) == []


def test_only_what_a_killed_writer_left_is_removed(tmp_path):
    left = ".train.trainer.7.0.2.snapshot.12.34.0123abcd"
    others = [".train.trainer.7.0.2.snapshot", ".train.trainer.7.0.2.snapshot.12.34.0123abc", "a.12.34.0123abcd"]
    others += [".notes.12.34.0123abcd", ".other.trainer.7.0.2.snapshot.12.34.0123abcd"]
    for name in [left, *others]:
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (0, 0))
    others.append(".train.trainer.7.1.2.snapshot.12.34.0123abcd")  # just created, and not locked yet
    (tmp_path / others[-1]).touch()
    link = ".train.trainer.8.0.2.snapshot.12.34.0123abcd"
    (tmp_path / link).symlink_to(others[0])
    during = []

    def write(fd):
        remove_unfinished(str(tmp_path), "train")
        during.extend(os.listdir(tmp_path))

    replace_file(str(tmp_path), "train.trainer.9.0.2.snapshot", write)

    assert any(name.startswith(".train.trainer.9.0.2.snapshot.") for name in during)
    assert sorted(os.listdir(tmp_path)) == sorted([*others, link, "train.trainer.9.0.2.snapshot"])


def test_threads_that_write_the_same_file_do_not_mix(tmp_path):
    both = Barrier(2)

    def write_slowly(data):
        def write(fd):
            both.wait(20)
            os.write(fd, data)

        replace_file(str(tmp_path), "it", write)

    with ThreadPoolExecutor() as threads:
        assert [*threads.map(write_slowly, (b"long" * 100, b"short"))] == [None, None]

    assert os.listdir(tmp_path) == ["it"]
    assert (tmp_path / "it").read_bytes() in (b"long" * 100, b"short")


@pytest.mark.parametrize(
    ("other", "sharded", "kept"),
    [
        ([7, 8], True, [8, 10, 100]),  # the other rank has ceased to write
        ([7, 8], False, [10, 100]),
        ([8, 10, 100], True, [10, 100]),
        ([], True, [10, 100]),
    ],
)
def test_the_newest_files_of_a_rank_are_kept_with_the_newest_that_all_have(tmp_path, other, sharded, kept):
    for step in (7, 8, 9, 10, 100, 200):  # 200: of a training that was not continued
        write(tmp_path, step)
    for step in other:
        write(tmp_path, step, rank=1)

    remove_old(str(tmp_path), SavedFile("train", "trainer", 100, 0, 2), keep=2, sharded=sharded)

    files = list_files(str(tmp_path), "train")
    assert [one.step for one in files if one.rank == 0] == [*kept, 200]
    assert [one.step for one in files if one.rank == 1] == other


@pytest.mark.parametrize(
    "name", ["", "notes.txt", "train.trainer.x.0.2.snapshot", "train.trainer.1.0.2.tmp", "a.b.1.2.snapshot"]
)
def test_other_files_are_left_alone(name):
    assert parse_filename(name) is None
    assert parse_filename("train.trainer.1.0.2.snapshot") == SavedFile("train", "trainer", 1, 0, 2)


def test_a_directory_that_is_not_there_has_no_files(tmp_path):
    assert list_files(str(tmp_path / "nowhere")) == []
