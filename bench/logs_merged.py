"""`flota logs --all` of a finished job, whose logs are merged by time: its speed, compared with cat, and its memory.

FLOTA_BENCH_LOG_MB sets the size of each log; the limits are the same for any size.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from functools import partial
from pathlib import Path

from bench import environments
from bench.harness import FLOTA, PLAIN, alternate, directory
from bench.processes import PATIENCE, check_ending
from bench.table import Row

RANKS = 64
SIZE = int(os.environ.get("FLOTA_BENCH_LOG_MB", "8")) * 1_000_000
MARKS = 400  # of each log: as many as a long job has
BAR = 150  # MB/s
MOST_MEMORY = 64 << 20  # bytes
LINE = b"step %06d loss 0.1234 lr 0.0003 grad 0.98 tokens/s 12345 memory 71.2 GiB epoch 3 of 10, all is well\n"
HOUR = 3600.0


def measure() -> list[Row]:
    peaks: list[int] = []
    with directory() as here:
        logs = make_job(here)
        command = [str(environments.BENCH / "bin" / "flota"), "logs", "--all"]
        cat = partial(_seconds, ["cat", *logs], here, [])
        took = alternate({PLAIN: (3, cat), FLOTA: (3, partial(_seconds, command, here, peaks))})
    rate, plain = (RANKS * SIZE / 1e6 / took[name] for name in (FLOTA, PLAIN))
    speed = Row(
        f"flota logs --all, {RANKS} logs of {SIZE / 1e6:.0f} MB",
        f"{rate:,.0f} MB/s",
        ratio=f"1/{plain / rate:.1f} of cat",
        bar=f">= {BAR} MB/s",
        met=rate >= BAR,
        plain=f"{plain:,.0f} MB/s (cat)",
    )
    memory = f"{max(peaks) / (1 << 20):.1f} MiB"
    return [speed, Row("… memory (RSS)", memory, "any size", f"<= {MOST_MEMORY >> 20} MiB", max(peaks) <= MOST_MEMORY)]


def make_job(here: Path) -> list[str]:
    """Write what a finished job leaves. Returns the paths of its logs."""
    node, began = os.uname().nodename, time.time() - 2 * HOUR
    (here / "log").mkdir()
    lines = b"".join(LINE % number for number in range(1000))
    starts = {}
    for rank in range(RANKS):
        log = here / "log" / f"workerlog.{rank}"
        with open(log, "wb") as file:
            file.writelines(lines for _ in range(SIZE // len(lines)))
        starts[log.name] = log.stat().st_ino, 0
    sizes = [
        {name: (inode, SIZE * mark // MARKS, began + HOUR * mark / MARKS) for name, (inode, _) in starts.items()}
        for mark in range(1, MARKS + 1)
    ]
    noted = [{"at": began, "pid": 1, "round": 0, "starts": starts}, *({"sizes": one} for one in sizes)]
    _write(here / "log" / f"times.{node}.jsonl", noted)
    clock = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))
    started = [{"event": "worker_started", "rank": rank, "pid": 1, "monotonic": 0.0} for rank in range(RANKS)]
    events = [{"event": "job_started", "pid": 1}, {"event": "round_started", "round": 0, "attempt": 0}, *started]
    _write(here / "log" / f"events.{node}.jsonl", [{"time": clock, "node": node, **event} for event in events])
    return [f"log/{name}" for name in starts]


def _write(path: Path, objects: list[dict[str, object]]) -> None:
    path.write_text("".join(f"{json.dumps(one)}\n" for one in objects))


def _seconds(command: list[str], here: Path, peaks: list[int]) -> float:
    began = time.monotonic()
    with subprocess.Popen(command, cwd=here, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    check_ending(command, process.returncode, here)
    assert seconds < PATIENCE
    peaks.append(usage.ru_maxrss << 10)
    return seconds
