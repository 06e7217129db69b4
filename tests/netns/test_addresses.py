"""The addresses of a machine, on this one and on one made for the purpose."""

from __future__ import annotations

import sys
from ast import literal_eval
from pathlib import Path

import pytest

from flota.host import addresses
from tests.netns.conftest import DEBIAN, HONEST, ONE_NETWORK, TWO_NETWORKS

SOURCE = Path(addresses.__file__).parents[2]


@pytest.fixture
def there(machine):
    """What an expression gives on a machine."""

    def evaluate(expression: str, **world: str) -> object:
        python = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from flota.host.addresses import *; print(repr({expression}))"
        result = machine(sys.executable, "-c", python, **world)
        assert result.returncode == 0, result.stderr
        return literal_eval(result.stdout)

    return evaluate


def test_this_machine_has_its_loopback():
    own = addresses.own_addresses()

    assert "127.0.0.1" in [address for _, address in own]
    assert addresses.is_own("127.0.0.1")
    assert addresses.is_own("127.3.2.1")
    assert addresses.is_own("::ffff:127.0.0.1")
    assert not addresses.is_own("203.0.113.7")
    assert not addresses.is_own("localhost")


def test_interfaces_and_their_addresses_lead_to_each_other():
    name = addresses.interface_of("127.0.0.1")

    assert name
    assert addresses.address_of(name) == "127.0.0.1"
    assert addresses.interface_of("127.9.9.9") == name
    assert addresses.interface_of("203.0.113.7") is None
    assert addresses.address_of("none0") is None


def test_an_explicit_loopback_stays():
    assert addresses.resolve_own("127.0.0.1") == "127.0.0.1"
    assert addresses.resolve_own("localhost") in ("127.0.0.1", "::1")
    assert addresses.resolve_own("203.0.113.7") is None
    assert not addresses.hostname_misleads("127.0.0.1")


def test_every_address_of_an_interface_is_found(there):
    assert there("own_addresses()", network=TWO_NETWORKS) == [
        ("lo", "127.0.0.1"),
        ("eth0", "10.9.0.5"),
        ("eth0", "10.9.0.6"),
        ("eth1", "10.8.0.5"),
        ("lo", "::1"),
        ("eth1", "fd00:8::5"),
    ]


@pytest.mark.parametrize(
    ("network", "toward", "address"),
    [
        ("", "", "127.0.0.1"),  # no network at all
        (ONE_NETWORK, "", "10.9.0.5"),  # no default route
        (TWO_NETWORKS, "", "10.9.0.5"),  # the default route's
        (TWO_NETWORKS, "10.8.0.9", "10.8.0.5"),  # the one that faces a host
        (TWO_NETWORKS, "fd00:8::9", "fd00:8::5"),
        (TWO_NETWORKS, "other", "10.9.0.5"),
        (TWO_NETWORKS, "127.0.0.1", "10.9.0.5"),  # loopback faces nobody
        (TWO_NETWORKS, "unknown", "10.9.0.5"),
        (f"{ONE_NETWORK}\nip address add 10.7.0.1/24 dev far0\nip link set eth0 down\n", "", "10.7.0.1"),
        (f"{TWO_NETWORKS}\nip -4 address flush dev eth0\nip -4 address flush dev eth1\n", "", "fd00:8::5"),
    ],
)
def test_the_address_that_others_can_reach(there, network, toward, address):
    assert there(f"reachable_address({toward!r})", network=network) == address


def test_an_interface_gives_its_first_reachable_address(there):
    assert there("[address_of('eth0'), address_of('eth1'), address_of('lo')]") == [
        "10.9.0.5",
        "10.8.0.5",
        "127.0.0.1",
    ]
    assert there("[interface_of('10.9.0.6'), interface_of('fd00:8::5')]") == ["eth0", "eth1"]


@pytest.mark.parametrize(
    ("hosts", "misleads"),
    [(DEBIAN, True), (HONEST, False), ("127.0.0.1 localhost\n", True), ("127.0.1.1 box\n10.9.0.5 box\n", True)],
)
def test_a_hostname_that_leads_to_loopback_or_nowhere_misleads(there, hosts, misleads):
    assert there("hostname_misleads('10.9.0.5')", hosts=hosts) is misleads


@pytest.mark.parametrize(
    ("host", "hosts", "address"),
    [
        ("box", DEBIAN, "10.9.0.5"),  # its own name, where others reach it
        ("box.example.org", DEBIAN, "10.9.0.5"),
        ("BOX", DEBIAN, "10.9.0.5"),
        ("box", "127.0.0.1 localhost\n", "10.9.0.5"),
        ("box", HONEST, "10.9.0.5"),
        ("second", HONEST, "10.8.0.5"),
        ("localhost", DEBIAN, "127.0.0.1"),
        ("127.0.1.1", DEBIAN, "127.0.1.1"),
        ("alias", DEBIAN, "127.0.0.7"),
        ("other", DEBIAN, None),
        ("nobody", DEBIAN, None),
        ("10.8.0.5", DEBIAN, "10.8.0.5"),
        ("fd00:8::5", DEBIAN, "fd00:8::5"),
        ("10.8.0.9", DEBIAN, None),
    ],
)
def test_a_masters_host_is_known_as_our_own(there, host, hosts, address):
    assert there(f"resolve_own({host!r})", hosts=hosts) == address
