"""Commands on a running job of 64 ranks, 16 on each of four hosts of a network lab: how long each takes."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.lab import Lab, missing

from bench.environments import PYTHON, environ
from bench.harness import FLOTA, PLAIN, WORKERS, alternate, directory, launch
from bench.processes import PATIENCE, Broken, wait_until
from bench.table import Row, milliseconds

HOSTS, RANKS = 4, 16
BAR = 0.2  # seconds
TOKEN = "bench"
COMMANDS = {
    "ps": ("ps", "--json"),
    "logs of a rank on another host": ("logs", "--rank", "40"),
}


def measure() -> list[Row]:
    if reason := missing():
        raise Broken(reason)
    with directory() as here, Lab(HOSTS) as lab:
        (here / "notes").mkdir()
        env = {**environ(), "FLOTA_TOKEN": TOKEN}
        nodes = ("--nnodes", HOSTS, "--master", "10.77.0.1:8090", "--console", "none")
        script = (WORKERS / "note_and_train_slowly.py", here / "notes")
        for host in lab.hosts:
            (here / host.name).mkdir()
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            host.popen(launch(FLOTA, RANKS, *nodes, *script), cwd=here / host.name, env=env, **quiet)
        flota = launch(FLOTA, 1)[0]
        ask = partial(_ask, lab, here, env, flota)
        wait_until(lambda: _ranks(ask) == HOSTS * RANKS, "all ranks to start")
        turns = {PLAIN: (9, partial(_seconds, lab, here, env, [str(PYTHON), "-c", "pass"]))}
        for name, words in COMMANDS.items():
            turns[name] = 9, partial(_seconds, lab, here, env, [flota, *words])
        took = alternate(turns)
    return [
        Row(
            f"flota {name}, {HOSTS * RANKS} ranks on {HOSTS} hosts",
            milliseconds(took[name]),
            ratio=f"{took[name] / took[PLAIN]:.1f} x plain python",
            bar=f"<= {1000 * BAR:.0f} ms",
            met=took[name] <= BAR,
            plain=milliseconds(took[PLAIN]),
        )
        for name in COMMANDS
    ]


def _ask(lab: Lab, here: Path, env: dict[str, str], flota: str, *words: str) -> str:
    command = [flota, *words]
    result = lab.hosts[0].run(command, cwd=here / lab.hosts[0].name, env=env, timeout=PATIENCE)
    if result.returncode:
        raise Broken(f"`{' '.join(command)}` exited with {result.returncode}:\n{result.stderr}")
    return str(result.stdout)


def _ranks(ask: Callable[..., str]) -> int:
    try:
        rows = json.loads(ask("ps", "--json"))
    except Broken:
        return 0
    return rows[0]["ranks"] if rows else 0


def _seconds(lab: Lab, here: Path, env: dict[str, str], command: list[str]) -> float:
    began = time.monotonic()
    try:
        result = lab.hosts[0].run(command, cwd=here / lab.hosts[0].name, env=env, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise Broken(f"`{' '.join(command)}` did not end in {PATIENCE:g} s") from None
    if result.returncode:
        raise Broken(f"`{' '.join(command)}` exited with {result.returncode}:\n{result.stderr}")
    return time.monotonic() - began
