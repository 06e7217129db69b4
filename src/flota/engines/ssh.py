"""ssh: the launcher runs here, and one flota on each host, at the other end of an ssh connection.

`flota --hosts` uses this engine, not `flota submit`: there is no queue, and the job ends with the launcher. Its
options are flags of a job (cli/flags.py).
"""

from __future__ import annotations

import os
import shlex
import sys

from flota.engines import EngineJob
from flota.engines.ssh_hosts import SshHost
from flota.engines.ssh_messages import MODULE
from flota.engines.tools import find_tool, run_tool, say
from flota.errors import FlotaError
from flota.job.roster import endpoint
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.engines import Option, Options
    from flota.engines.ssh_launcher import Launcher

OPTIONS: tuple[Option, ...] = ()
# Without these, ssh would wait minutes for a host without power. flota does not override what the user's config says.
ALIVE = ("-oServerAliveInterval=2", "-oServerAliveCountMax=3")
TIMEOUT = "-oConnectTimeout=10"
WINDOW = 32  # hosts that are connected, or copied to or from, at the same time
INSTALL = "install OpenSSH's client"


class SshPlan(NamedTuple):
    """What `flota --hosts` starts."""

    job: EngineJob
    hosts: tuple[SshHost, ...]
    ssh: tuple[str, ...]  # the ssh command without the host
    python: str
    directory: str  # on the hosts
    digest: str  # of the script
    env: dict[str, str]
    sync: bool
    detach: bool
    fetch_logs: bool
    by_line: bool  # whether several hosts write to the console

    def __repr__(self) -> str:
        return f"SshPlan({self.job!r}, {self.hosts!r})"

    @property
    def text(self) -> str:
        """The commands, and what the flota at the other end of each is asked to run."""
        lines = []
        for number, host in enumerate(self.hosts):
            lines += [f"# {host.label}: node {number}"]
            lines += [shlex.join(self.sync_command(host))] if self.sync else []
            lines += [shlex.join(self.node_command(host))]
            lines += [f"#   flota {shlex.join(self.node_words(number, endpoint(self.hosts[0].label, '<free>')))}"]
        return "\n".join([*lines, ""])

    def node_command(self, host: SshHost) -> list[str]:
        """`exec`: no shell may come between sshd and flota. The interpreter has a full path: PATH is not that of a
        login."""
        return [*self.ssh, host.name, f"exec {shlex.quote(self.python)} -m {MODULE}"]

    def later_command(self, host: SshHost, *words: str) -> str:
        """A command for a user's shell that asks the flota of a detached job: with the user's own config of ssh."""
        command = shlex.join([self.python, "-m", "flota", *words])
        return shlex.join([*self.ssh[: self.ssh.index("-T")], host.name, command])

    def node_words(self, number: int, master: str) -> list[str]:
        """The arguments of flota on one host."""
        words = [f"--nnodes={self.job.nodes}"]
        if len(self.hosts) > 1:
            words += [f"--rank={number}", f"--master={master}"]
        count = self.hosts[number].workers
        return [*words, *([f"--nproc_per_node={count}"] if count else []), *self.job.words]

    def sync_command(self, host: SshHost) -> list[str]:
        name = f"[{host.name}]" if host.name.count(":") > 1 else host.name
        skipped = ["--filter=:- .gitignore", "--exclude=/.git", f"--exclude=/{self.job.log_dir}"]
        make = f"mkdir -p {shlex.quote(self.directory)} && rsync"
        options = ["--rsync-path", make, "-e", shlex.join(self.ssh)]
        return ["rsync", "-as", *skipped, *options, f"{self.job.directory}/", f"{name}:{self.directory}/"]

    @property
    def log_dir(self) -> str:
        """Where the logs are on the hosts: of a directory per run, the one above all runs."""
        return os.path.join(self.directory, self.job.log_dir.partition("{")[0].rstrip("/") or ".")


def observe(job: EngineJob, options: Options) -> Options:  # noqa: ARG001  it is the same for all jobs
    """Add what the user's config of ssh says about the first host: --dry_run works without ssh."""
    said = {}
    try:
        command = ["ssh", *options["ssh_options"], "-G", options["hosts"][0].name]
        said = dict(line.partition(" ")[::2] for line in run_tool(command).splitlines())
    except FlotaError:
        pass
    alive = said.get("serveraliveinterval", "0") == "0"
    timeout = said.get("connecttimeout", "none") == "none"
    return {**options, "defaults": (*(ALIVE if alive else ()), *((TIMEOUT,) if timeout else ()))}


def plan(job: EngineJob, options: Options) -> SshPlan:
    # Of two values ssh takes the first. No terminal, no questions: there may be many hosts.
    ssh = ("ssh", *options["ssh_options"], "-T", "-oBatchMode=yes", *options["defaults"])
    return SshPlan(
        job=job,
        hosts=options["hosts"],
        ssh=ssh,
        python=options["remote_python"] or sys.executable,
        directory=os.path.normpath(os.path.join(job.directory, options["chdir"])),
        digest=options["digest"],
        env=options["forward"],
        sync=options["sync"],
        detach=options["detach"],
        fetch_logs=options["fetch_logs"],
        by_line=options["by_line"],
    )


def start(planned: SshPlan, environ: Mapping[str, str]) -> Launcher:  # noqa: ARG001  ssh gets this environment
    """Check all hosts, and start a node on each."""
    find_tool("ssh", INSTALL)
    if planned.sync:
        find_tool("rsync", "install rsync here and on the hosts, or copy the directory yourself")
    from flota.engines.ssh_launcher import Launcher

    launcher = Launcher(planned)
    launcher.start()
    return launcher


def follow(launcher: Launcher) -> int:
    """Show the job's output until it ends."""
    code = launcher.follow()
    if launcher.plan.fetch_logs:
        fetch_logs(launcher.plan)
    return code


def fetch_logs(planned: SshPlan) -> None:
    """Copy the logs of all hosts to a directory per host, beside the logs of this machine."""
    from concurrent.futures import ThreadPoolExecutor

    here = os.path.join(planned.job.directory, planned.job.log_dir.partition("{")[0])
    with ThreadPoolExecutor(WINDOW) as pool:
        troubles = list(pool.map(lambda host: _fetch(planned, host, os.path.join(here, host.label)), planned.hosts))
    for host, trouble in zip(planned.hosts, troubles, strict=True):
        if trouble:
            say(f"warning: no logs from {host.label}: {trouble}")
    if not all(troubles):
        say(f"logs of {len(troubles) - sum(map(bool, troubles))} of {len(troubles)} hosts are in {here}/HOST")


def _fetch(planned: SshPlan, host: SshHost, where: str) -> str:
    """Returns what went wrong, or nothing. tar is on every host; rsync and sftp are not."""
    import subprocess

    from flota.engines.tools import last_line

    # The directory may be shared with this machine: leave out what has been fetched.
    excluded = [f"--exclude=./{name}" for name in (".flota.lock", *(other.label for other in planned.hosts))]
    command = shlex.join(["tar", "-C", planned.log_dir, *excluded, "-cf", "-", "."])
    os.makedirs(where, exist_ok=True)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*planned.ssh, host.name, f"exec {command}"], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
    ) as source:
        target = subprocess.run(["tar", "-C", where, "-xf", "-"], stdin=source.stdout, stderr=pipe, check=False)
        assert source.stderr
        said = source.stderr.read()
    failed = next((text for code, text in ((source.returncode, said), (target.returncode, target.stderr)) if code), b"")
    return last_line(failed.decode(errors="replace")) if failed else ""
