"""machine(): a machine called box, with a network and an /etc/hosts of its own, that runs one command."""

from __future__ import annotations

import os
import subprocess
from shutil import which

import pytest

from tests.launching import environment

ONE_NETWORK = """
ip link add eth0 type veth peer name far0
ip address add 10.9.0.5/24 dev eth0
ip address add 10.9.0.6/24 dev eth0
ip link set eth0 up
ip link set far0 up
"""
TWO_NETWORKS = f"""{ONE_NETWORK}
ip link add eth1 type veth peer name far1
ip address add 10.8.0.5/24 dev eth1
ip address add fd00:8::5/64 dev eth1 nodad
ip link set eth1 up
ip link set far1 up
ip route add default via 10.9.0.1
"""
DEBIAN = "127.0.0.1 localhost\n127.0.1.1 box.example.org box\n10.9.0.9 other\n127.0.0.7 alias\n"
HONEST = "127.0.0.1 localhost\n10.9.0.5 box\n10.8.0.5 second\n"


@pytest.fixture
def machine(tmp_path):
    if os.getuid() != 0 or not which("ip"):
        pytest.skip("networks need root and iproute2")

    def run(
        *command: object, network: str = TWO_NETWORKS, hosts: str = DEBIAN, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        (tmp_path / "hosts").write_text(hosts)
        (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")  # nobody there, so unknown names fail at once
        mounts = "\n".join(f"mount --bind {tmp_path}/{name} /etc/{name}" for name in ("hosts", "resolv.conf"))
        script = f'set -e\n{mounts}\nhostname box\nip link set lo up\n{network}\nexec "$0" "$@"'
        return subprocess.run(
            ["unshare", "--net", "--uts", "--mount", "sh", "-c", script, *(str(word) for word in command)],
            cwd=tmp_path,
            env=environment(env),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run
