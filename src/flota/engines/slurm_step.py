"""flota inside a Slurm job: when the job ends, and `--srun`, which starts one flota per node of the allocation."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from flota.engines.interrupts import Interrupts
from flota.engines.tools import find_tool, run_tool
from flota.errors.engines import NotInSlurm
from flota.job.slurm_variables import allocated_nodes
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

HINT = "run this in a Slurm job: `salloc --nodes 2 flota --srun train.py`"
POLL = 0.1  # seconds between two looks at Ctrl-C


class Step(NamedTuple):
    """A step of the job that this process belongs to."""

    job: str
    name: str

    def stop(self) -> None:
        """SIGTERM to every task, so that workers save."""
        self._cancel("--signal=TERM")

    def kill(self) -> None:
        self._cancel()

    def _cancel(self, *words: str) -> None:
        listed = run_tool(["squeue", "--steps", "--noheader", f"--jobs={self.job}", "--format=%i %j"]).splitlines()
        for step in [row.split()[0] for row in listed if row.split()[1:] == [self.name]]:
            run_tool(["scancel", *words, step])


def find_end_time(flag: str, environ: Mapping[str, str]) -> float:
    """When Slurm ends the job that this process belongs to."""
    said = environ.get("SLURM_JOB_END_TIME", "")  # not in all versions
    if said.isdecimal():
        return float(said)
    number = environ.get("SLURM_JOB_ID", "")
    if not number:
        raise NotInSlurm(flag, "a Slurm job")
    words = run_tool(["squeue", "--noheader", f"--jobs={number}", "--format=%e"]).split()
    try:
        return min(time.mktime(time.strptime(word, "%Y-%m-%dT%H:%M:%S")) for word in words)  # of all components
    except ValueError:
        raise NotInSlurm(flag, "a Slurm job that has a time limit") from None


def step_command(words: tuple[str, ...], name: str, environ: Mapping[str, str]) -> list[str]:
    """The command that starts one flota per node of the allocation that this process belongs to."""
    components = allocated_nodes(environ)
    if not components:
        raise NotInSlurm("--srun", "the shell or the batch script of a Slurm job")
    command = ["srun"]
    for number, nodes in enumerate(components):
        layout = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=0", "--overlap"]
        # The parts of one step, in the components of a heterogeneous job.
        command += [":"] if number else []
        command += [f"--het-group={number}"] if len(components) > 1 else []
        command += [*layout, f"--job-name={name}", sys.executable, "-m", "flota", *words]
    return command


def run_step(words: tuple[str, ...], token: str, environ: Mapping[str, str]) -> int:
    """Start one flota per node of the allocation that this process belongs to, and wait for them."""
    step = Step(environ.get("SLURM_JOB_ID", ""), f"flota-{os.getpid()}")
    command = step_command(words, step.name, environ)
    find_tool("srun", HINT)
    interrupts = Interrupts(step, "the step", can_detach=False)
    # In a session of its own: Ctrl-C and SIGTERM must not reach srun, which would kill its tasks at once.
    process = subprocess.Popen(
        command, env={**environ, "FLOTA_TOKEN": token}, stdin=subprocess.DEVNULL, start_new_session=True
    )
    while True:
        try:
            code = process.wait(POLL)
            return code if code >= 0 else 128 - code
        except subprocess.TimeoutExpired:
            interrupts.detaches()
