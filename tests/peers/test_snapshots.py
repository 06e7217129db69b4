"""Snapshots of real frameworks: ranks that are killed at random moments end with the same bits as ranks that are not."""

from __future__ import annotations

import os
from itertools import pairwise

import pytest

from .conftest import Peer, fact, run, script

KILLS = 50 if os.environ.get("FLOTA_SOAK") else 2
STEPS = 200 + 40 * KILLS
FRAMEWORKS = {"ddp": "torch", "fsdp": "torch", "paddle": "paddle", "jax": "jax"}

PATIENCE = 120 + 30 * KILLS

pytestmark = [pytest.mark.real, pytest.mark.timeout(2 * PATIENCE)]


def digests(peer: Peer, way: str, kills: int) -> tuple[set[str], list[dict[int, int]]]:
    """How the ranks end, and the steps at which each began its attempts."""
    options = (
        "--nproc_per_node",
        "2",
        "--max_restart",
        "999",
        "--crash_loop",
        "0",
        "--backoff",
        "0.05s",
        "--grace",
        "1s",
    )
    command = [str(peer.bin / "flota"), *options, script("snapshots.py"), way, str(STEPS), str(kills)]
    ended = run(command, peer.directory, timeout=PATIENCE)
    assert ended.code == 0, ended.err + ended.out
    found = [peer.results(rank) for rank in (0, 1)]
    begins = [
        {int(fact(line, "attempt")): int(fact(line, "begins")) for line in lines if "begins=" in line}
        for lines in found
    ]
    return {f"{rank} {fact(lines[-1], 'digest')}" for rank, lines in enumerate(found)}, begins


@pytest.mark.parametrize("way", FRAMEWORKS)
def test_killed_ranks_end_with_the_same_bits(tmp_path, way):
    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()

    undisturbed, _ = digests(Peer(FRAMEWORKS[way], tmp_path / "undisturbed"), way, 0)
    killed, begins = digests(Peer(FRAMEWORKS[way], tmp_path / "killed"), way, KILLS)

    assert killed == undisturbed
    assert begins[0] == begins[1]
    # With FSDP2 there was one restart more than kills in two of three runs; why is not known. No step was lost.
    assert len(begins[0]) > KILLS
    assert all(0 <= now - before < 45 for before, now in pairwise(begins[0].values()))
    assert [*begins[0].values()][-1] >= 5 * KILLS
