"""A copier that writes states to files, and sends them from files."""

from __future__ import annotations

import json
import os
import socket
from threading import Event, Thread

import pytest

from flota.snapshots import copier as module
from flota.snapshots.copier import Copier
from flota.snapshots.copy_protocol import GET, LONGEST_REQUEST, CopyFailed, CopyRequest
from flota.snapshots.disk import find_file, write_file
from flota.snapshots.memory import create_memory
from flota.snapshots.state_file import StateFile
from flota.worker.snapshot_layout import BUFFER_ALIGNMENT, complete_steps
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


def test_a_fetch_of_an_earlier_round_changes_nothing(file):
    """Its state comes, or its failure is known, when the workers of the next round already use the memory."""
    before = os.pread(file.fd, os.fstat(file.fd).st_size, 0)
    entry = file.entries()[complete_steps(file.entries())[7]]
    node, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client, server = socket.socketpair()
    with node, other, client, server:
        copier = Copier(other, None)
        for _ in range(2):
            copier._perform({"do": "round", "token": "", "directory": ""}, [])
        copier._perform({"do": "file", "role": "trainer", "rank": 0, "forget": None}, [os.dup(file.fd)])
        late = entry._replace(step=9, complete=10)
        server.sendall(json.dumps(late).encode().ljust(LONGEST_REQUEST) + b"x" * entry.size + bytes(4))

        with pytest.raises(CopyFailed, match="the round is over"):
            copier._take(client, CopyRequest(GET, "trainer", 0, 9), file, 1)
        place = {"host": "host2", "address": "127.0.0.1", "port": 1}
        copier._fetch({"role": "trainer", "rank": 0, "step": 9, **place}, 1)

        node.settimeout(0)
        with pytest.raises(BlockingIOError):
            node.recv(100)
    assert os.pread(file.fd, os.fstat(file.fd).st_size, 0) == before


def test_a_damaged_file_is_not_sent_as_a_whole_one(tmp_path, file):
    """The sender closes the connection before the end, and does not offer the file again."""
    entry = file.entries()[complete_steps(file.entries())[7]]
    write_file(str(tmp_path), file, entry, iter([os.pread(file.fd, entry.size, entry.offset)]))
    path = find_file(str(tmp_path), "trainer", 0, 7)
    with open(path, "r+b") as damaged:
        damaged.seek(BUFFER_ALIGNMENT)
        damaged.write(bytes(10))
    node, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client, server = socket.socketpair()
    with node, other, client, server:
        copier = Copier(other, None)
        copier._perform({"do": "round", "token": "", "directory": str(tmp_path)}, [])

        with pytest.raises(CopyFailed):
            copier._give(server, CopyRequest(GET, "trainer", 0, 7))

        assert f"{path} is damaged" in node.recv(1000).decode()
    assert os.listdir(tmp_path) == [f"{os.path.basename(path)}.damaged"]
