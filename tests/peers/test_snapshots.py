"""Snapshots of real frameworks: ranks that are killed at random moments end with the same bits as ranks that are not."""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest

from .conftest import Peer, fact, run, script

KILLS = 50 if os.environ.get("FLOTA_SOAK") else 2
STEPS = 200 + 40 * KILLS
FRAMEWORKS = {"ddp": "torch", "fsdp": "torch", "paddle": "paddle", "jax": "jax"}

PATIENCE = 120 + 30 * KILLS

pytestmark = [pytest.mark.real, pytest.mark.timeout(2 * PATIENCE)]


class Attempts(NamedTuple):
    """Of one job: the step at which each attempt began, and the newest saved step of the rank that was then killed."""

    begins: dict[int, int]
    reached: dict[int, int]
    digests: list[str]  # of the final state, by rank


def train(peer: Peer, way: str, kills: int) -> Attempts:
    options = "--nproc_per_node 2 --max_restart 999 --crash_loop 0 --backoff 0.05s --grace 1s".split()
    command = [str(peer.bin / "flota"), *options, script("snapshots.py"), way, str(STEPS), str(kills)]
    ended = run(command, peer.directory, timeout=PATIENCE)
    assert ended.code == 0, ended.err + ended.out
    ranks = [peer.results(rank) for rank in (0, 1)]
    begins = [by_attempt(lines, "begins") for lines in ranks]
    assert begins[0] == begins[1]
    reached = by_attempt([line for lines in ranks for line in lines], "reached")
    return Attempts(begins[0], reached, [fact(lines[-1], "digest") for lines in ranks])


def by_attempt(lines: list[str], name: str) -> dict[int, int]:
    return {int(fact(line, "attempt")): int(fact(line, name)) for line in lines if f"{name}=" in line}


@pytest.mark.parametrize("way", FRAMEWORKS)
def test_killed_ranks_end_with_the_same_bits(tmp_path, way):
    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()

    undisturbed = train(Peer(FRAMEWORKS[way], tmp_path / "undisturbed"), way, 0)
    killed = train(Peer(FRAMEWORKS[way], tmp_path / "killed"), way, KILLS)

    assert killed.digests == undisturbed.digests
    assert list(killed.begins) == list(range(KILLS + 1))
    assert sorted(killed.reached) == list(range(KILLS))
    for attempt, step in killed.reached.items():
        assert killed.begins[attempt + 1] >= step - 1, "at most one step is done again"
