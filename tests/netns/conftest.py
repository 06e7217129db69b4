"""machine(): runs one command on a machine called box, with its own network and /etc/hosts.
job(): a job of many nodes, on hosts that tests share.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from shutil import which

import pytest

from tests.lab import Lab, hosts, missing
from tests.lab.etcd import Etcd
from tests.lab.guard import end_all
from tests.launching import environment
from tests.netns.jobs import ETCD, HTTP, PORT, Job

# No link-local addresses: the kernel would add one some time after the link is up.
ONE_NETWORK = """
echo 1 > /proc/sys/net/ipv6/conf/default/addr_gen_mode
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
        (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")  # no server, so unknown names fail at once
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


class SharedHosts:
    """Hosts 1 to 10, with a real etcd on host 9 that no test disturbs: for all tests that do not need their own."""

    def __init__(self, directory: Path) -> None:
        self.lab = Lab(10)
        self.etcd = Etcd([self.lab.host(9)], directory)

    def master(self, kind: str) -> str:
        return f"{self.lab.host(1).address}:{PORT}" if kind == HTTP else f"etcd://{self.etcd.addresses[0]}"

    def tidy(self) -> None:
        self.lab.heal()
        for host in self.lab.hosts:
            host.etc_hosts(hosts.names(len(self.lab.hosts)))
        end_all({host.inode for host in self.lab.hosts if host.number != 9})


@pytest.fixture(scope="session")
def shared_session(tmp_path_factory):
    """Created once: an etcd takes a second to start."""
    if missing():
        pytest.skip(str(missing()))
    hosts_and_etcd = SharedHosts(tmp_path_factory.mktemp("shared"))
    yield hosts_and_etcd
    hosts_and_etcd.lab.close()


@pytest.fixture
def shared(shared_session):
    yield shared_session
    shared_session.tidy()


@pytest.fixture
def jobs(shared, tmp_path):
    """A job with each kind of master, for tests that mostly wait: they run at the same time."""
    return [Job(shared.lab, tmp_path, shared.master(kind)) for kind in (HTTP, ETCD)]


@pytest.fixture(params=[HTTP, ETCD])
def job(request, shared, tmp_path):
    """A job with the embedded master on host 1, then one with a real etcd."""
    return Job(shared.lab, tmp_path, shared.master(request.param))
