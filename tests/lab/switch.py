"""The switch of a lab: bridges with one port per host, in a namespace without an uplink.

Host N's cable ends at port pN. While its packets are shaped, a relay connects pN to qN, which is on the bridge.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.lab.hosts import Host
from tests.lab.namespace import Namespace

RELAY = Path(__file__).with_name("relay.py")
FORWARDING = "3"
MAIN = "br0"


class Switch(Namespace):
    def __init__(self, directory: Path) -> None:
        super().__init__("switch", directory)
        self._bridges: set[str] = set()
        self._plugged: dict[int, str] = {}  # host to bridge; a host that is cut has none
        self._pulled: set[int] = set()
        self._relays: dict[int, subprocess.Popen[Any]] = {}
        # A bridge with an address would be an additional host, which answers on ports that are cut.
        for scope in ("all", "default"):
            self.call(Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text, "1")

    def add(self, hosts: Iterable[Host]) -> None:
        self.ip(*(f"link add p{host.number} type veth peer name eth0 netns {host.thread}" for host in hosts))

    def plug(self, hosts: Iterable[int], bridge: str = MAIN) -> None:
        """Connect hosts to a bridge, with their cables plugged in, and wait until it forwards packets."""
        hosts = list(hosts)
        lines = [] if bridge in self._bridges else [f"link add {bridge} up type bridge mcast_snooping 0"]
        for host in hosts:
            lines += [f"link set p{host} up", f"link set {self._port(host)} master {bridge} up"]
        self.ip(*lines)
        self._bridges.add(bridge)
        self._plugged.update(dict.fromkeys(hosts, bridge))
        self._pulled.difference_update(hosts)
        self.call(self._wait, [self._port(host) for host in hosts])

    def cut(self, host: int, *, carrier: bool) -> None:
        """Drop all packets without notice; or unplug the cable, which the host's kernel notices."""
        if carrier:
            self.ip(f"link set p{host} down")
            self._pulled.add(host)
        else:
            self.ip(f"link set {self._port(host)} nomaster")
            self._plugged.pop(host, None)

    def partition(self, groups: Sequence[Sequence[int]]) -> None:
        for number, group in enumerate(groups):
            self.plug(group, f"br{number}")

    def shape(self, host: int, quality: Sequence[float]) -> None:
        self.unshape(host)
        # One packet per frame: otherwise one loss would drop several packets.
        self.ip(f"link add q{host} up gso_max_segs 1 type veth peer name r{host}", f"link set r{host} up")
        self.ip(f"link set p{host} nomaster")
        words = [sys.executable, "-IS", RELAY, f"p{host}", f"r{host}", *quality]
        relay = self.popen(words, stdout=subprocess.PIPE)
        self._relays[host] = relay
        if not relay.stdout or relay.stdout.read(1) != b"!":
            raise OSError(f"the relay of host {host} did not start")
        self._replug(host)

    def unshape(self, host: int) -> None:
        if relay := self._relays.pop(host, None):
            relay.kill()
            relay.wait()
            self.ip(f"link del q{host}")
            self._replug(host)

    def _replug(self, host: int) -> None:
        """Connect the new port of a host to its bridge, unless the host is cut off."""
        if bridge := self._plugged.get(host):
            self.ip(f"link set {self._port(host)} master {bridge}")
            self.call(self._wait, [] if host in self._pulled else [self._port(host)])

    def _port(self, host: int) -> str:
        return f"q{host}" if host in self._relays else f"p{host}"

    @staticmethod
    def _wait(ports: list[str]) -> None:
        """The kernel notices a cable with a delay, and a bridge drops packets until then."""
        give_up = time.monotonic() + 5
        for port in ports:
            state = Path("/sys/class/net", port, "brport/state")
            while state.read_text().strip() != FORWARDING:
                if time.monotonic() > give_up:
                    raise TimeoutError(f"port {port} does not come up")
                time.sleep(0.001)
