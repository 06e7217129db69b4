"""Commands on a running job of 64 ranks, 16 on each of four hosts of a network lab: how long each takes.

For `stop`, `restart` and `drain` that is the time to the acknowledgement. For what all ranks wait on, nodes run py-spy
once per rank, and the four hosts share the CPUs of one machine: the bar is that of the other commands plus the time
that py-spy alone takes for all of them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from functools import partial
from pathlib import Path

from tests.lab import Lab, missing

from bench.environments import BENCH, PYTHON, environ
from bench.harness import FLOTA, PLAIN, WORKERS, alternate, directory, launch
from bench.processes import PATIENCE, Broken, wait_until
from bench.table import Row, milliseconds

HOSTS, RANKS = 4, 16
BAR = 0.2  # seconds
TOKEN = "bench"
STACK, PYSPY = "stack of all hosts", "py-spy of all ranks"
ASKING = {
    "ps": ("ps", "--json"),
    "top, one snapshot": ("top", "--json"),
    "logs of a rank on another host": ("logs", "--rank", "40"),
    "logs of all ranks, the last 2 s": ("logs", "--all", "--since", "2s"),
    "why": ("why", "--job", "default"),
    STACK: ("stack", "--at"),
}
ACTING = {"restart": ("restart",), "drain": ("drain", "3"), "stop": ("stop",)}  # in this order
JOBS = 3  # of the acting commands


def measure() -> list[Row]:
    if reason := missing():
        raise Broken(reason)
    with directory() as here, Lab(HOSTS) as lab:
        job = LabJob(lab, here)
        job.start()
        turns = {PLAIN: (9, partial(job.seconds, [str(PYTHON), "-c", "pass"])), PYSPY: (3, job.seconds_of_pyspy)}
        for name, words in ASKING.items():
            at = (job.endpoint,) if name == STACK else ()
            turns[name] = 3 if at else 9, partial(job.seconds, [job.flota, *words, *at])
        took = alternate(turns)
        acting: dict[str, list[float]] = {name: [] for name in ACTING}
        for number in range(JOBS):
            if number:
                job.start()
            for name, words in ACTING.items():
                acting[name].append(job.seconds([job.flota, *words]))
                job.wait_after(name)
    took |= {name: statistics.median(seconds) for name, seconds in acting.items()}
    return [_row(name, took) for name in (*ASKING, *ACTING)]


def _row(name: str, took: dict[str, float]) -> Row:
    bar = BAR + took[PYSPY] if name == STACK else BAR
    return Row(
        f"flota {name}, {HOSTS * RANKS} ranks on {HOSTS} hosts",
        milliseconds(took[name]),
        ratio=f"{took[name] / took[PLAIN]:.1f} x plain python",
        bar=f"<= {1000 * bar:.0f} ms" + (f": {1000 * BAR:.0f} + {PYSPY}" if name == STACK else ""),
        met=took[name] <= bar,
        plain=milliseconds(took[PYSPY] if name == STACK else took[PLAIN]),
    )


class LabJob:
    """An elastic job on the hosts of a lab, which is started again and again."""

    def __init__(self, lab: Lab, here: Path) -> None:
        self._lab, self._here = lab, here
        self._env = {**environ(), "FLOTA_TOKEN": TOKEN}
        self._running: list[subprocess.Popen[bytes]] = []
        self.flota = launch(FLOTA, 1)[0]
        (here / "notes").mkdir()
        for host in lab.hosts:
            (here / host.name).mkdir()

    def start(self) -> None:
        nodes = ("--nnodes", f"{HOSTS - 1}:{HOSTS}", "--elastic_timeout", "2s", "--master", "10.77.0.1:8090")
        script = (WORKERS / "note_and_train_slowly.py", self._here / "notes")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        for host in self._lab.hosts:
            command = launch(FLOTA, RANKS, *nodes, "--console", "none", *script)
            self._running.append(host.popen(command, cwd=self._here / host.name, env=self._env, **quiet))
        self._wait_for(HOSTS)

    @property
    def endpoint(self) -> str:
        return str(json.loads(self._run([self.flota, "ps", "--json"]))[0]["endpoint"])

    def wait_after(self, name: str) -> None:
        if name == "stop":
            for process in self._running:
                process.wait(PATIENCE)
            self._running = []
        else:
            self._wait_for(HOSTS if name == "restart" else HOSTS - 1)

    def _wait_for(self, nodes: int) -> None:
        """Until all ranks of a round on so many nodes have made a step."""
        wait_until(lambda: self._steps().count(True) == nodes * RANKS == len(self._steps()), f"{nodes} nodes")

    def _steps(self) -> list[bool]:
        try:
            answer = json.loads(self._run([self.flota, "top", "--json"]))
        except Broken:
            return []
        return [rank["state"] == "running" and rank["step"] >= 0 for node in answer["nodes"] for rank in node["ranks"]]

    def seconds(self, command: list[str]) -> float:
        began = time.monotonic()
        self._run(command)
        return time.monotonic() - began

    def seconds_of_pyspy(self) -> float:
        """The stacks of all ranks without flota: as many at once as there are CPUs."""
        answer = json.loads(self._run([self.flota, "top", "--json"]))
        pids = [str(rank["pid"]) for node in answer["nodes"] for rank in node["ranks"]]
        dump = f"xargs -P {os.cpu_count()} -n 1 {BENCH}/bin/py-spy dump --json --nonblocking --pid >/dev/null"
        return self.seconds(["sh", "-c", f"echo {' '.join(pids)} | {dump}"])

    def _run(self, command: list[str]) -> str:
        host = self._lab.hosts[0]
        try:
            result = host.run(command, cwd=self._here / host.name, env=self._env, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Broken(f"`{' '.join(command)}` did not end in {PATIENCE:g} s") from None
        if result.returncode:
            raise Broken(f"`{' '.join(command)}` exited with {result.returncode}:\n{result.stderr}")
        return str(result.stdout)
