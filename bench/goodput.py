"""The share of the undisturbed speed that a job keeps under failures: real torch DDP on four hosts of a network lab.

FLOTA_BENCH_MINUTES: how long each job is disturbed [3]. FLOTA_SEED: of the failures [7]."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.lab import Lab, missing

from bench import environments
from bench.failing_job import FailingJob
from bench.harness import FLOTA, TORCHRUN, WORKERS
from bench.processes import Broken
from bench.table import Row

HOSTS = 4
MINUTES = float(os.environ.get("FLOTA_BENCH_MINUTES", "3"))
SEED = int(os.environ.get("FLOTA_SEED", "7"))
SETTLING, MEASURING = (
    20.0,
    30.0,
)  # seconds of undisturbed training: at first templates warm up; the rest gives the speed
SCRIPT = WORKERS / "train_under_failures.py"
MOST_SECONDS = {"worker": 0.8, "node": 2.5, "host": 8.0}
MIXTURE = ("worker", "shepherd", "node", "host", "cable", "hang", "slow")


class Outcome(NamedTuple):
    goodput: float
    seconds: dict[str, float]  # by kind of failure: the median that one has cost
    failures: int
    lost: int
    same_loss: bool

    def __str__(self) -> str:
        cost = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in self.seconds.items())
        lost = f", {self.lost} jobs lost" if self.lost else ""
        other = "" if self.same_loss else ", another loss"
        return f"{self.goodput:.3f} ({cost}){lost}{other}"


def measure() -> list[Row]:
    if reason := missing():
        raise Broken(reason)
    rows = []
    for ranks in (1, 2):
        ours = _train(FLOTA, ranks, ("worker",), 20.0)
        theirs = _train(TORCHRUN, ranks, ("worker",), 20.0)
        rows.append(_row(f"a worker killed every 20 s, {HOSTS} x {ranks} ranks", ours, 0.95, theirs))
        rows.append(_cost(ours, "worker", ranks))
    mixture = _train(FLOTA, 1, MIXTURE, 60.0)
    rows.append(_row(f"any failure every 60 s, {HOSTS} x 1 ranks", mixture, 0.97, None))
    return [*rows, *(_cost(mixture, kind, 1) for kind in ("node", "host") if kind in mixture.seconds)]


def _cost(outcome: Outcome, kind: str, ranks: int) -> Row:
    seconds, most = outcome.seconds[kind], MOST_SECONDS[kind]
    return Row(
        f"seconds that a killed {kind} costs, {HOSTS} x {ranks} ranks",
        f"{seconds:.1f} s",
        ratio=f"{seconds:.1f} s",
        bar=f"<= {most} s",
        met=seconds <= most,
    )


def _row(what: str, ours: Outcome, bar: float, theirs: Outcome | None) -> Row:
    return Row(
        f"goodput, torch DDP, {what}, {MINUTES:g} minutes (seed {SEED})",
        str(ours),
        ratio=f"{ours.failures} failures",
        bar=f">= {bar}, no job lost, the same loss",
        met=ours.goodput >= bar and not ours.lost and ours.same_loss,
        torchrun=str(theirs) if theirs else "-",
    )


def _train(launcher: str, ranks: int, kinds: tuple[str, ...], period: float) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="flota-goodput-") as name, Lab(HOSTS) as lab:
        here = Path(name)
        job = FailingJob(
            lab, here, range(1, HOSTS + 1), lambda host: _command(launcher, ranks, host, here), HOSTS * ranks
        )
        try:
            return _disturb(job, kinds, period)
        finally:
            job.stop()


def _disturb(job: FailingJob, kinds: tuple[str, ...], period: float) -> Outcome:
    job.wait_for_step(10)
    job.run_for(SETTLING)
    began = job.progress()
    job.run_for(MEASURING)
    ended = job.progress()
    speed = (ended.step - began.step) / (ended.at - began.at)
    chance, costs = random.Random(f"{SEED} {period}"), []
    disturbed_at = time.monotonic()
    first = job.progress().step
    while time.monotonic() < disturbed_at + 60 * MINUTES:
        kind, before = kinds[len(costs) % len(kinds)], job.progress().step
        where, failed_at = job.fail(kind, chance), time.monotonic()
        job.run_for(period)
        done = job.progress().step - before
        costs.append((kind, time.monotonic() - failed_at - done / speed))
        print(f"bench: goodput: {where}: {done} steps in {period:g} s", file=sys.stderr)
    seconds = time.monotonic() - disturbed_at
    goodput = (job.progress().step - first) / (speed * seconds)
    print(f"bench: goodput: {speed:.2f} steps per second without failures", file=sys.stderr)
    medians = {kind: median(cost for one, cost in costs if one == kind) for kind in dict.fromkeys(kinds[: len(costs)])}
    return Outcome(goodput, medians, len(costs), job.lost, _is_same(job.losses()))


def _is_same(losses: dict[int, set[str]]) -> bool:
    """Whether no step is missing, and all that were done again had the same loss as before."""
    return all(len(losses.get(step, ())) == 1 for step in range(1, max(losses) + 1))


def _command(launcher: str, ranks: int, host: int, notes: Path) -> list[str]:
    python = environments.TORCH / "bin" / "python"
    masters = ",".join(f"10.77.0.{number}:8090" for number in (1, 2, 3))
    if launcher == FLOTA:
        flags = (
            "--nnodes",
            HOSTS,
            "--master",
            masters,
            "--max_restart",
            10_000,
            "--warm",
            "auto",
            "--hang_timeout",
            "5s",
        )
        steady = ("--crash-loop", 0, "--backoff", 0, "--join_timeout", "5m", "--python", python, "--log_dir", "log")
        words = (
            environments.BENCH / "bin" / "flota",
            "--nproc_per_node",
            ranks,
            *flags,
            *steady,
            SCRIPT,
            notes,
            "snapshot",
        )
    else:
        place = ("--rdzv-backend", "c10d", "--rdzv-id", "bench", "--rdzv-endpoint", "10.77.0.1:29400")
        flags = ("--nnodes", HOSTS, "--max-restarts", 10_000, "--local-addr", f"10.77.0.{host}")
        words = (
            environments.TORCH / "bin" / "torchrun",
            "--nproc-per-node",
            ranks,
            *flags,
            *place,
            SCRIPT,
            notes,
            "file",
        )
    return [str(word) for word in words]
