"""python -m bench [NAME...]: measure all claims, or these, and print a table. Exits with 1 if a limit is missed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib import import_module

from bench import environments
from bench.processes import Broken, adopt_orphans, end_orphans
from bench.table import Row, render

CLAIMS = (
    "first_line_of_one",
    "first_line_of_eight",
    "whole_job",
    "memory",
    "idle_cpu",
    "restart",
    "warm",
    "heartbeat",
    "snapshots",
    "hang_watch",
    "watching_top",
    "hangs",
    "output_to_files",
    "output_shown",
    "logs_merged",
    "commands",
    "cold_nodes",
    "ssh_start",
    "slurm_start",
    "restart_of_nodes",
    "blame",
    "join_hundred",
    "join_thousands",
    "memory_of_master",
    "page",
    "page_frames",
    "goodput",
)


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in CLAIMS]
    if unknown:
        print(f"bench: no claim `{unknown[0]}`; the claims are: {', '.join(CLAIMS)}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # runs every clean-up
    adopt_orphans()
    try:
        environments.prepare()
    except environments.MissingPeer as missing:
        print(f"bench: {missing}", file=sys.stderr)
        return 2
    began, load = time.monotonic(), _load()
    rows = [row for name in names or CLAIMS for row in _rows(name)]
    print(render(rows))
    missed = sum(not row.met for row in rows)
    seconds = time.monotonic() - began
    print(f"\n{len(rows) - missed} of {len(rows)} limits met, {seconds:.0f} s on {os.cpu_count()} CPUs", end="; ")
    print(f"load average {load} before, {_load()} after")
    return 1 if missed else 0


def _rows(name: str) -> list[Row]:
    print(f"bench: {name} …", file=sys.stderr, flush=True)
    try:
        measured: list[Row] = import_module(f"bench.{name}").measure()
    except (Broken, OSError, subprocess.SubprocessError) as broken:
        print(f"bench: {name}: {broken}", file=sys.stderr)
        return [Row(name, "broken", "-", "-", met=False)]
    finally:
        end_orphans()
    return measured


def _load() -> str:
    return " ".join(f"{load:.1f}" for load in os.getloadavg())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
