"""The threads of a copier that write the same rank's states."""

from __future__ import annotations

import os
import socket
from threading import Event, Thread

import pytest

from flota.snapshots import copier as module
from flota.snapshots.copier import Copier
from flota.snapshots.memory import create_memory
from flota.snapshots.state_file import StateFile
from flota.worker.snapshot_layout import complete_steps
from flota.worker.snapshot_memory import RankMemory
from flota.worker.snapshot_tree import Flattened


@pytest.fixture
def file():
    fd = create_memory()
    for step in (6, 7):
        state = Flattened()
        state.add_part("n", step)
        memory = RankMemory(f"/proc/self/fd/{fd}", 1 << 30, 1)
        memory.write(step, state, state.to_json("train"), rank=0, world=1, sharded=True)
    yield StateFile("trainer", 0, fd)
    os.close(fd)


@pytest.mark.parametrize(("step", "written"), [(7, [7]), (6, [6, 7])], ids=["the-same", "an-older-one"])
def test_the_last_state_is_written_once_after_the_one_that_is_being_written(tmp_path, monkeypatch, file, step, written):
    began, may_end, done = Event(), Event(), []

    def write(directory, file, entry, chunks):
        began.set()
        assert may_end.wait(20)
        done.append(entry.step)

    monkeypatch.setattr(module, "write_file", write)
    node, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with node, other:
        copier = Copier(other, None)
        copier._perform({"do": "round", "token": "", "directory": str(tmp_path)}, [])
        copier._perform({"do": "file", "role": "trainer", "rank": 0, "forget": None}, [os.dup(file.fd)])
        entries = file.entries()
        buffer = complete_steps(entries)[step]
        writer = Thread(target=copier._write, args=(file, buffer, entries[buffer], 1))
        flush = Thread(target=copier._perform, args=({"do": "flush", "ranks": [["trainer", 0]]}, []))
        writer.start()
        assert began.wait(20)
        flush.start()
        flush.join(0.2)
        assert flush.is_alive()
        may_end.set()
        flush.join(20)
        writer.join(20)
        assert node.recv(100) == b'{"do": "flushed"}'
        copier._perform({"do": "round", "token": "", "directory": ""}, [])  # closes the file

    assert done == written
