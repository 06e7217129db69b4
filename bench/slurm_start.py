"""`srun flota` on nodes of a real Slurm, in a network lab: the time to the first line of the last worker."""

from __future__ import annotations

import subprocess
import time
from functools import partial

from tests.lab import Lab, missing
from tests.lab import slurm as slurm_lab
from tests.lab.slurm import Slurm

from bench.environments import PYTHON, environ
from bench.harness import FLOTA, PLAIN, alternate, directory, last_start, launch, noting_script
from bench.processes import PATIENCE, Broken
from bench.table import Row, milliseconds

NODES = 4
MOST = 1.3


def measure() -> list[Row]:
    reason = missing() or slurm_lab.missing()
    if reason:
        raise Broken(reason)
    with Lab(NODES) as lab:
        slurm = Slurm(lab)
        turns = {name: (9, partial(_seconds, slurm, name)) for name in (PLAIN, FLOTA)}
        took = alternate(turns)
    ours, plain = took[FLOTA], took[PLAIN]
    return [
        Row(
            f"srun to first line, {NODES} nodes",
            milliseconds(ours),
            ratio=f"{ours / plain:.1f} x plain",
            bar=f"<= {MOST:g} x `srun python`",
            met=ours <= MOST * plain,
            plain=milliseconds(plain),
        )
    ]


def _seconds(slurm: Slurm, launcher: str) -> float:
    with directory() as here:
        script = [str(word) for word in noting_script(here)]
        command = [str(PYTHON), *script] if launcher == PLAIN else launch(FLOTA, 1, *script)
        variables = {name: slurm.environ()[name] for name in ("SLURM_CONF", "PATH")}
        began = time.monotonic()
        process = slurm.popen(
            *("srun", f"--nodes={NODES}", "--ntasks-per-node=1", *command), cwd=here, env={**environ(), **variables}
        )
        try:
            _, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise Broken(f"`srun {' '.join(command)}` did not end in {PATIENCE:g} s") from None
        (here / "stderr").write_text(err)
        return last_start(here, NODES) - began
