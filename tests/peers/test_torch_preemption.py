"""torch, preempted at random moments: every time all ranks have saved the same step, and a scheduler may try again."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tests.lab import Lab
from tests.launching import wait_until

from .over_hosts import MASTER, PATIENCE, Job, needs_lab

SOAK = bool(os.environ.get("FLOTA_SOAK"))
WAYS = ("asks", "pauses", "recorded", "called")
TIMES = 50 if SOAK else len(WAYS) // 2
SEED = int(os.environ.get("FLOTA_SEED") or (random.randrange(10**6) if SOAK else 4))
TRY_AGAIN = 75
pytestmark = [pytest.mark.real, needs_lab, pytest.mark.timeout(60 + 60 * TIMES)]


@pytest.mark.parametrize(("hosts", "ways"), [(1, WAYS), (2, WAYS[::-1])], ids=["1 host", "2 hosts"])
def test_whenever_it_comes_all_ranks_have_saved_the_same_step(tmp_path, hosts, ways):
    chance = random.Random(SEED)
    states = tmp_path / "states"
    states.mkdir()
    flags = ("--nproc_per_node", 2 // hosts, "--grace", 60)
    flags += ("--nnodes", hosts, "--master", MASTER) if hosts > 1 else ()
    before = -1
    with Lab(hosts) as lab:
        for turn in range(TIMES):
            pause, way = chance.choice([0.0, 0.001, 0.02]), ways[turn % len(ways)]
            (tmp_path / f"{turn}").mkdir()
            job = Job("torch", lab, tmp_path / f"{turn}", "preempted.py", states, pause, way)
            job.start(range(1, hosts + 1), *flags)
            wait_until(lambda: len(list(states.glob("going-*"))) == 2, "steps", PATIENCE)
            time.sleep(chance.uniform(0, 0.5))
            told = chance.sample(sorted(job.on), chance.randint(1, hosts))
            for number in told:
                job.on[number].process.send_signal(signal.SIGTERM)
            codes = [node.wait(PATIENCE) for node in job.on.values()]
            story = f"seed {SEED}, turn {turn}, pause {pause}, {way}, told {told}: {job.story()}"
            assert codes == [TRY_AGAIN] * hosts, story
            said = job.results()
            assert said[0] == said[1] and len(said[0]) == 1, f"{said} {story}"
            saved = int(said[0][0].rpartition("=")[2])
            assert saved > before, story
            before = saved
            for node in job.on.values():
                node.assert_nobody_left()
            for path in states.glob("going-*"):
                path.unlink()
