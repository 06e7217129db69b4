"""The node's side of its copier, without the process: where other nodes reach it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flota.host.loop import Loop
from flota.snapshots.copier_process import open_copier
from flota.snapshots.memory import SnapshotMemory


@pytest.fixture
def memory():
    memory = SnapshotMemory(None)
    yield memory
    memory.close()


@pytest.mark.parametrize(("token", "tls", "listens"), [("t", False, True), ("", False, False), ("t", True, False)])
def test_other_nodes_reach_it_only_with_a_token_and_without_tls(memory, token, tls, listens):
    spec = SimpleNamespace(address="127.0.0.1", snapshot_dir="", snapshot_every=0.0, snapshot_copies=1)
    node = SimpleNamespace(
        spec=spec, nodes=SimpleNamespace(tls=tls), requests=SimpleNamespace(token=token), environ={},
        console=SimpleNamespace(say=print), snapshots=memory, loop=Loop(),
    )  # fmt: skip

    copier = open_copier(node)

    assert bool(copier.port) is listens
    copier.close()
