"""A real Slurm on the hosts of a lab: the controller on host 1, one slurmd per host. It ends with the lab."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.lab.hosts import Host
from tests.lab.lab import Lab
from tests.launching import environment, wait_until

PROGRAMS = ("slurmctld", "slurmd", "munged", "srun", "sbatch", "scancel", "squeue", "scontrol")
PLACES = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
REAPER = Path(__file__).with_name("reaper.py")
CPUS = 4  # of each node; more than this machine has is fine
KILL_WAIT = 30
CONFIG = """\
ClusterName=lab
SlurmctldHost=host1(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool.%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=10
KillWait={kill_wait}
MinJobAge=300
PrologFlags=Alloc
SrunPortRange=61000-61999
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
"""


def missing() -> str | None:
    """What this machine lacks for Slurm, as a reason to skip; None if nothing is missing."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=PLACES) is None]
    return f"Slurm needs {absent[0]}: make test SYSTEM=1 installs it, as root" if absent else None


class Slurm:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.directory = Path(lab.directory, "slurm")
        (self.directory / "state").mkdir(parents=True)
        self.config = self.directory / "slurm.conf"
        names = [f"NodeName={host.name} NodeAddr={host.address} CPUs={CPUS} RealMemory=1000" for host in lab.hosts]
        partition = f"PartitionName=main Nodes=host[1-{len(names)}] Default=YES MaxTime=INFINITE State=UP"
        text = CONFIG.format(directory=self.directory, kill_wait=KILL_WAIT)
        self.config.write_text("\n".join([text, *names, partition, ""]))
        (self.directory / "cgroup.conf").write_text("CgroupAutomount=no\n")
        self._start_munge(lab.host(1))
        self._daemon(lab.host(1), "slurmctld", "-D", "-c", "-i")
        for host in lab.hosts:
            self._daemon(host, "slurmd", "-D", "-N", host.name)
        wait_until(lambda: self.idle() == len(lab.hosts), "all Slurm nodes to be idle", 60)

    def _start_munge(self, host: Host) -> None:
        key = self.directory / "munge.key"
        key.touch(mode=0o400)
        key.write_bytes(os.urandom(1024))
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        words = [f"--{flag}={self.directory}/munge.{name}" for flag, name in files.items()]
        self._daemon(host, "munged", "--foreground", "--force", *words)
        wait_until((self.directory / "munge.socket").exists, "munged's socket", 30)

    def _daemon(self, host: Host, name: str, *words: str) -> None:
        program = shutil.which(name, path=PLACES)
        assert program
        with (self.directory / f"{name}.{host.name}.out").open("wb") as out:
            host.popen(
                [sys.executable, "-IS", str(REAPER), program, *words],
                env=self.environ(),
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def environ(self, **more: str) -> dict[str, str]:
        return environment({"SLURM_CONF": str(self.config), "PATH": PLACES, **more})

    def idle(self) -> int:
        return self.run("sinfo", "--noheader", "--Node", "--format=%t").splitlines().count("idle")

    def popen(self, *words: object, cwd: Path | None = None, host: int = 1, **options: Any) -> subprocess.Popen[str]:
        """Start a command of Slurm, or flota, on a host of the lab."""
        given: dict[str, Any] = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            "env": self.environ(),
            **options,
        }
        return self.lab.host(host).popen([str(word) for word in words], cwd=cwd, start_new_session=True, **given)

    def run(self, *words: object, cwd: Path | None = None) -> str:
        """Run a command to its end and return its output."""
        out, _ = self.popen(*words, cwd=cwd).communicate(timeout=60)
        return out

    def hosts(self, job: str) -> list[int]:
        """The numbers of the hosts of a job: any that are idle when it starts."""
        nodes = self.run("squeue", "--noheader", "--format=%N", "--jobs", job).strip()
        names = self.run("scontrol", "show", "hostnames", nodes)
        return [int(name.removeprefix("host")) for name in names.split()]

    def state(self, job: str) -> str:
        """The state of a job, as in RUNNING."""
        fields = self.run("scontrol", "--oneliner", "show", "job", job).split()
        return next((field.partition("=")[2] for field in fields if field.startswith("JobState=")), "UNKNOWN")
