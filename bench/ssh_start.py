"""Jobs over ssh, on hosts of a network lab: the time to the first line of the last worker."""

from __future__ import annotations

import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.lab import Lab, missing
from tests.lab.sshd import Sshd, missing_ssh

from bench.environments import PYTHON, environ
from bench.harness import FLOTA, PLAIN, alternate, directory, last_start, launch, noting_script
from bench.processes import PATIENCE, Broken
from bench.table import Row, milliseconds

FEW, MANY = 4, 32


def measure() -> list[Row]:
    reason = missing() or missing_ssh()
    if reason:
        raise Broken(reason)
    with tempfile.TemporaryDirectory(prefix="flota-ssh-") as keys, Lab(MANY + 1) as lab:
        sshd = Sshd(lab.hosts, Path(keys))
        took = alternate(
            {
                PLAIN: (5, partial(_seconds, lab, sshd, FEW, plain=True)),
                FLOTA: (5, partial(_seconds, lab, sshd, FEW)),
                "many": (3, partial(_seconds, lab, sshd, MANY)),
            }
        )
    few, many, plain = took[FLOTA], took["many"], took[PLAIN]
    return [
        Row(
            f"ssh to first line, {FEW} hosts",
            milliseconds(few),
            ratio=f"{few / plain:.1f} x plain",
            bar="<= 2 x the slowest `ssh host python`",
            met=few <= 2 * plain,
            plain=milliseconds(plain),
        ),
        Row(
            f"ssh to first line, {MANY} hosts",
            milliseconds(many),
            ratio=f"{many / few:.1f} x {FEW} hosts",
            bar=f"<= 4 x {FEW} hosts",
            met=many <= 4 * few,
        ),
    ]


def _seconds(lab: Lab, sshd: Sshd, count: int, *, plain: bool = False) -> float:
    with directory() as here:
        script = [str(word) for word in noting_script(here)]
        ssh = f"ssh -F {sshd.config}"
        if plain:
            hosts = " ".join(host.name for host in lab.hosts[:count])
            loop = f'for host in {hosts}; do {ssh} $host exec "$@" & done; wait'
            command = ["sh", "-c", loop, "sh", str(PYTHON), *script]
        else:
            flags = ("--hosts", f"host[1-{count}]", "--ssh-options", ssh.removeprefix("ssh "))
            command = launch(FLOTA, 1, *flags, *script)
        began = time.monotonic()
        try:
            result = lab.hosts[-1].run(command, cwd=here, env=environ(), timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Broken(f"`{' '.join(command)}` did not end in {PATIENCE:g} s") from None
        (here / "stderr").write_text(result.stderr)
        return last_start(here, count) - began
