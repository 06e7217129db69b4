"""The nodes run the etcd of their job, and any of them is lost, in any way: the job goes on, with one roster per round."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable

import pytest

from tests.lab import Lab, missing
from tests.launching import DEADLINE, wait_until
from tests.netns.members import MembersJob

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.timeout(7200 if os.environ.get("FLOTA_SOAK") else 300),
]

LOSSES = 50 if os.environ.get("FLOTA_SOAK") else 3  # for each number of hosts
SIZES = (3, 5) if os.environ.get("FLOTA_SOAK") else (3,)


def rank_0(job: MembersJob) -> int:
    hosts = [note["host"] for note in job.notes("worker", max(job.rounds())).values()]
    return int(hosts[0].removeprefix("host"))


VICTIMS: dict[str, Callable[[MembersJob], int]] = {
    "rank 0": rank_0,
    "the coordinator": MembersJob.coordinator,
    "etcd's leader": MembersJob.leader,
}


def cut_power(job: MembersJob, victim: int) -> None:
    job.lab.cut(victim)
    job.lab.crash(victim)


def partition(job: MembersJob, victim: int) -> None:
    job.lab.partition([victim])


# How a node is lost, and whether its processes live on.
WAYS: dict[str, tuple[Callable[[MembersJob, int], None], bool]] = {
    "process killed": (MembersJob.kill_node, False),
    "host crashed": (lambda job, victim: job.lab.crash(victim), False),
    "power lost": (cut_power, False),
    "cable cut": (lambda job, victim: job.lab.cut(victim, carrier=True), True),
    "partition": (partition, True),
}


def newest_round(job: MembersJob, count: int, after: int) -> int:
    """Wait for a round with this many workers, which is also the last one."""

    def found() -> bool:
        last = max(job.rounds(), default=-1)
        sizes = [note["world_size"] for note in job.notes("worker", last).values()]
        return last > after and sizes == [str(count)] * count

    try:
        wait_until(found, f"{count} workers in a round after {after}")
    except AssertionError as error:
        error.add_note(str(job))
        raise
    return max(job.rounds())


@pytest.mark.parametrize("count", SIZES)
def test_the_job_goes_on_with_one_roster_per_round(tmp_path, count, capsys):
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    seconds: list[float] = []
    words = f"--nnodes {count - 1}:{count} --max_restart 1000"
    with Lab(count) as lab:
        job = MembersJob(lab, tmp_path, count)
        job.start(job.listed, words)
        now = newest_round(job, count, -1)
        for number in range(LOSSES):
            job.wait_for_members()
            who, find = chance.choice(list(VICTIMS.items()))
            way, (lose, lives) = chance.choice(list(WAYS.items()))
            wait_until(lambda find=find: find(job), who)
            victim, began = find(job), time.monotonic()
            lose(job, victim)
            now = newest_round(job, count - 1, now)
            seconds.append(time.monotonic() - began)
            with capsys.disabled():
                print(f"\n{count} hosts, loss {number}: {who} on host{victim}, {way}: {seconds[-1]:.1f} s", end="")
            lab.heal()
            if not lives:
                job.node(victim, words)
            now = newest_round(job, count, now)
        job.finish()
        alive = [node for node in job.nodes.started if node.process.poll() is None]
        assert [node.wait(DEADLINE) for node in alive] == [0] * count, f"seed {seed}{job}"
        assert all(len(roster) == 1 for roster in job.rosters().values()), f"seed {seed}"
        job.assert_nothing_left(job.listed)
    with capsys.disabled():
        median = statistics.median(seconds)
        print(f"\n{count} hosts, {LOSSES} losses (seed {seed}): next round after {median:.1f} s (median)")
