"""This node's own address and interface, and its place in a list of addresses. For jobs of many machines."""

from __future__ import annotations

from flota.cli.settings import Settings, strength
from flota.errors import Contradiction, NotAmongNodes, SeveralAmongNodes, UnknownInterface
from flota.host.addresses import (
    address_of,
    hostname_misleads,
    interface_of,
    is_loopback,
    own_addresses,
    reachable_address,
    resolve_own,
)
from flota.job.nodes import NodesSpec


def choose_address(settings: Settings, nodes: NodesSpec) -> str:
    """What was asked for; else this node's address in a list of nodes; else the one that faces the master."""
    wanted = wanted_address(settings)
    if wanted:
        return wanted
    if nodes.hosts:
        host = nodes.hosts[nodes.rank]
        return resolve_own(host) or host
    host = nodes.places[0].host if nodes.places else ""
    if nodes.etcd or not host:
        return reachable_address(host)  # an etcd on this machine says nothing of where the other nodes are
    return resolve_own(host) or reachable_address(host)


def choose_interface(settings: Settings, address: str) -> str:
    """The interface that workers must be told of: the one asked for, or the address's own if the hostname misleads."""
    interface = str(settings["network_interface"] or "")
    if interface and address == address_of(interface):
        return interface
    address = resolve_own(address) or address
    return interface_of(address) or "" if hostname_misleads(address) else ""


def wanted_address(settings: Settings) -> str:
    """--host or --network-interface; the stronger source wins, as POD_IP is set in every pod."""
    host, interface = str(settings["host"] or ""), str(settings["network_interface"] or "")
    if not interface:
        return host
    source = settings.source("network_interface")
    address = address_of(interface)
    if address is None:
        raise UnknownInterface(source, interface, list(dict.fromkeys(name for name, _ in own_addresses())))
    lead = strength(settings.source("host")) - strength(source) if host else -1
    if lead == 0 and host != address:
        raise Contradiction(settings.spelled("host"), f"{source} {interface}", f"it has {address}")
    return host if lead > 0 else address


def find_own_rank(settings: Settings, source: str, hosts: tuple[str, ...], rank: int) -> int:
    """This machine's place in a list of nodes; a rank that was given must be it."""
    wanted = wanted_address(settings)
    mine = [n for n, host in enumerate(hosts) if (wanted in (host, resolve_own(host)) if wanted else resolve_own(host))]
    if not mine:
        own = [wanted] if wanted else [address for _, address in own_addresses() if not is_loopback(address)]
        raise NotAmongNodes(source, hosts, own)
    if rank >= 0 and rank not in mine:
        listed = f"{source} {','.join(hosts)}"
        raise Contradiction(settings.spelled("rank"), listed, f"this machine is number {mine[0]} there")
    if rank < 0 and len(mine) > 1:
        raise SeveralAmongNodes(source, tuple(hosts[number] for number in mine))
    return rank if rank >= 0 else mine[0]
