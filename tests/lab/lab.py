"""A lab: hosts on a switch, and network faults between them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.lab import hosts
from tests.lab.guard import end_all
from tests.lab.hosts import Host
from tests.lab.namespace import Namespace
from tests.lab.switch import Switch

GUARD = Path(__file__).with_name("guard.py")
MOST = 200  # hosts, as numbers in 10.77.0
NET_ADMIN, SYS_ADMIN = 12, 21  # capabilities, as bits


def missing() -> str | None:
    """What this machine lacks for a lab, as a reason to skip; None if nothing is missing."""
    status = Path("/proc/self/status").read_text()
    able = int(status.partition("CapEff:")[2].split()[0], 16)
    if not (able >> NET_ADMIN & 1 and able >> SYS_ADMIN & 1):
        return "a network lab needs root"
    return None if shutil.which("ip") else "a network lab needs ip: make test SYSTEM=1 installs iproute2, as root"


class Lab:
    """Hosts 1 to `count`, all on one switch."""

    def __init__(self, count: int) -> None:
        assert 1 <= count <= MOST, count
        self.directory = Path(tempfile.mkdtemp(prefix="flota-lab-"))
        self._guard: subprocess.Popen[bytes] | None = None
        self._places: list[Namespace] = []
        try:
            self._build(count)
        except BaseException:
            self.close()
            raise

    def _build(self, count: int) -> None:
        self._switch = Switch(self.directory)
        self._places.append(self._switch)
        self.hosts: list[Host] = []
        for number in range(1, count + 1):
            self.hosts.append(Host(number, self.directory))
            self._places.append(self.hosts[-1])
        self._guard = self._start_guard()
        self._switch.add(self.hosts)
        for host in self.hosts:
            host.etc_hosts(hosts.names(count))
            host.connect()
        self.heal()

    def _start_guard(self) -> subprocess.Popen[bytes]:
        descriptors = [os.open(f"/proc/self/task/{place.thread}/ns/net", os.O_RDONLY) for place in self._places]
        words = [sys.executable, "-IS", GUARD, self.directory, *descriptors]
        try:
            # In its own session: Ctrl-C must stop the tests, not the guard.
            return subprocess.Popen(
                [str(word) for word in words],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,  # a reader of the tests' output must not wait for the guard
                stderr=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,
            )
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def host(self, number: int) -> Host:
        assert number >= 1, number
        return self.hosts[number - 1]

    def cut(self, number: int, *, carrier: bool = False) -> None:
        """Silently drop all packets to and from a host; with `carrier`, unplug its cable."""
        self._switch.cut(number, carrier=carrier)

    def partition(self, *groups: Sequence[int]) -> None:
        """Put each group on its own switch; all hosts that are not in a group share another one."""
        named = [number for group in groups for number in group]
        assert len(named) == len(set(named)), f"a host is in two groups: {groups}"
        rest = [host.number for host in self.hosts if host.number not in named]
        self._switch.partition([*groups, rest] if rest else groups)

    def heal(self, *numbers: int) -> None:
        """Undo cuts and partitions of these hosts, or of all; shaping stays."""
        self._switch.plug(numbers or [host.number for host in self.hosts])

    def shape(
        self,
        number: int,
        *,
        delay_ms: float = 0.0,
        jitter_ms: float = 0.0,
        loss_percent: float = 0.0,
        rate_mbit: float = 0.0,
        dropped_port: int = 0,
    ) -> None:
        """Delay, drop or slow down a host's packets in each direction; drop all packets of one TCP port."""
        quality = [delay_ms / 1e3, jitter_ms / 1e3, loss_percent / 100, rate_mbit * 1e6 / 8, dropped_port]
        self._switch.shape(number, quality)
        self.host(number).ip("link set eth0 gso_max_segs 1")

    def unshape(self, number: int) -> None:
        self._switch.unshape(number)
        self.host(number).ip("link set eth0 gso_max_segs 65535")

    def crash(self, number: int) -> None:
        """SIGKILL to every process on a host. Its kernel closes the connections; after `cut` it is a loss of power."""
        self.host(number).crash()

    def close(self) -> None:
        """Kill every process in the lab, and remove the lab."""
        guard, self._guard = self._guard, None
        if guard:
            assert guard.stdin
            guard.stdin.close()
            if guard.wait(timeout=20):  # it was killed
                end_all({place.inode for place in self._places})
        places, self._places = self._places, []
        for place in places:
            place.close()
        shutil.rmtree(self.directory, ignore_errors=True)
