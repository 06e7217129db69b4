"""sshd on hosts of a lab, with keys and a config of their own: nothing of ~/.ssh is read or written."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.lab import kernel
from tests.lab.hosts import Host
from tests.launching import wait_until

PORT = 22
CLIENT = """\
Host *
  Port {port}
  User root
  IdentityFile {directory}/id
  IdentityAgent none
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""
SERVER = """\
Port {port}
ListenAddress 0.0.0.0
HostKey {directory}/hostkey
PidFile none
AuthorizedKeysFile {directory}/id.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PrintMotd no
MaxStartups 200
"""


def find_sshd() -> str:
    return shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin") or ""


def missing_ssh() -> str | None:
    """What this machine lacks for sshd in a lab, as a reason to skip; None if nothing is missing."""
    if find_sshd() and shutil.which("ssh") and shutil.which("ssh-keygen"):
        return None
    return "tests over ssh need sshd: make test SYSTEM=1 installs openssh-server, as root"


class Sshd:
    """sshd on each of these hosts. `config`: for `ssh -F`."""

    def __init__(self, hosts: Sequence[Host], directory: Path) -> None:
        self.config = directory / "ssh_config"
        self._settings = directory / "sshd_config"
        values = {"port": PORT, "directory": directory}
        self.config.write_text(CLIENT.format(**values))
        self._settings.write_text(SERVER.format(**values))
        for key in ("hostkey", "id"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(directory / key)]
            subprocess.run(words, check=True)
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd needs it, and only its package's service creates it
        startup = Path.home() / ".bashrc"  # can cost a second per login, and print anything
        for host in hosts:
            if startup.exists():
                host.call(kernel.mount, "/dev/null", str(startup), flags=kernel.BIND)
            self.start(host)

    def start(self, host: Host) -> None:
        """Start sshd, or start it again after a crash of the host."""
        log = self.config.with_name(f"sshd.{host.name}.log").open("ab")
        with log:
            argv = [find_sshd(), "-D", "-e", "-f", self._settings]
            process = host.popen(argv, stdout=log, stderr=log)
        wait_until(lambda: process.poll() is not None or host.call(_answers, host.address), f"sshd on {host.name}")
        assert process.poll() is None, self.config.with_name(f"sshd.{host.name}.log").read_text()


def _answers(address: str) -> bool:
    try:
        socket.create_connection((address, PORT), 1.0).close()
    except OSError:
        return False
    return True
