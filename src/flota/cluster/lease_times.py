"""Lease durations: how long a node may be silent before it counts as lost. Pure."""

from flota.job.nodes import NodesSpec

LEASE = 5.0  # seconds of silence after which a node counts as lost
ETCD_LEASE = 3
NODES_PER_SECOND = 64  # per second of lease: with thousands of nodes, renewing short leases would overload the store


def lease_of(nodes: NodesSpec) -> int:
    """The lease in whole seconds, as etcd requires. With etcd it is shorter, because `absence_of` adds to it."""
    return max(ETCD_LEASE if nodes.etcd else int(LEASE), nodes.most // NODES_PER_SECOND)


def absence_of(nodes: NodesSpec) -> float:
    """Seconds after the end of its lease until a node counts as lost."""
    return lease_of(nodes) / 2 if nodes.etcd else 0.0
