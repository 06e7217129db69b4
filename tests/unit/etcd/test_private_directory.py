"""Where the data of a member goes, and when a directory is removed."""

from __future__ import annotations

import os

import pytest

from flota.errors import NoRoomForEtcd
from flota.etcd.private_directory import ENOUGH_MEMORY, MEMORY, NEEDED, PREFIX, PrivateDirectory, choose_parent, sweep

PLENTY = 64 << 30


@pytest.mark.parametrize(
    ("in_memory", "memory", "on_disk", "parent"),
    [
        (PLENTY, PLENTY, PLENTY, MEMORY),
        (PLENTY, ENOUGH_MEMORY - 1, PLENTY, "/tmp"),  # training needs it
        (64 << 20, PLENTY, PLENTY, "/tmp"),  # a container's /dev/shm
        (PLENTY, ENOUGH_MEMORY, 0, MEMORY),
    ],
)
def test_memory_is_used_only_if_there_is_plenty(in_memory, memory, on_disk, parent):
    assert choose_parent(in_memory, memory, on_disk, NEEDED, "/tmp") == parent


def test_without_room_nothing_is_started():
    with pytest.raises(NoRoomForEtcd, match=r"needs 512 MiB: 1.0 MiB free in /tmp"):
        choose_parent(64 << 20, PLENTY, 1 << 20, NEEDED, "/tmp")


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setattr("flota.etcd.private_directory.MEMORY", str(tmp_path))
    return lambda: PrivateDirectory({"TMPDIR": str(tmp_path)}, needed=0)


def test_data_is_never_used_twice(directory):
    made = directory()

    paths = [made.new_data() for _ in range(3)]

    assert len(set(paths)) == 3
    made.remove()


def test_directories_of_dead_nodes_are_swept_and_others_are_not(directory, tmp_path):
    alive, dead = directory(), directory()
    (tmp_path / f"{PREFIX}of-a-stranger").mkdir()
    os.close(dead.lock)  # as the kernel does when its node and its etcd have exited

    sweep([str(tmp_path)])

    assert sorted(os.listdir(tmp_path)) == sorted([os.path.basename(alive.path), f"{PREFIX}of-a-stranger"])
    alive.remove()
    assert os.listdir(tmp_path) == [f"{PREFIX}of-a-stranger"]
