"""One host of a lab: its own eth0, loopback, hostname, /etc/hosts and /dev/shm.

Processes, files and CPUs are shared with the machine: this is a network, not a container.
"""

from __future__ import annotations

from pathlib import Path

from tests.lab import kernel
from tests.lab.namespace import Namespace

LOCAL = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"
FILES = ("hosts", "hostname", "resolv.conf")


class Host(Namespace):
    def __init__(self, number: int, directory: Path) -> None:
        self.number = number
        self.address = address(number)
        self.address6 = address6(number)
        super().__init__(name(number), directory)

    def connect(self) -> None:
        """Bring up eth0, which the switch has created. There is no gateway: packets to other networks are lost."""
        self.call(Path("/proc/sys/net/ipv6/conf/eth0/accept_dad").write_text, "0")
        self.ip(
            "link set lo up",
            f"addr add {self.address}/24 dev eth0",
            f"addr add {self.address6}/64 dev eth0 nodad",  # duplicate address detection would take a second
            "link set eth0 up",
            "route add default via 10.77.0.254",
            "route add default via fd77::ffff",
        )

    def etc_hosts(self, text: str) -> None:
        """Replace the /etc/hosts of this host, for example with `127.0.1.1 host1`, as on Debian."""
        (self.directory / "hosts").write_text(text)

    def _mount(self) -> None:
        super()._mount()
        kernel.mount("shm", "/dev/shm", "tmpfs")
        contents = {"hosts": LOCAL, "hostname": f"{self.name}\n"}
        for file in FILES:
            # An empty resolv.conf: an unknown name fails at once, whereas a lost DNS query would take seconds.
            (self.directory / file).write_text(contents.get(file, ""))
            if Path("/etc", file).exists():
                kernel.mount(str(self.directory / file), f"/etc/{file}", flags=kernel.BIND)


def name(number: int) -> str:
    return f"host{number}"


def address(number: int) -> str:
    return f"10.77.0.{number}"


def address6(number: int) -> str:
    return f"fd77::{number:x}"


def names(count: int) -> str:
    """An /etc/hosts with every host. Each name has one address, because the order of two depends on the resolver."""
    rows = [
        f"{address(number)} {name(number)}\n{address6(number)} {name(number)}v6\n" for number in range(1, count + 1)
    ]
    return LOCAL + "".join(rows)
