"""How long a node may be silent before it counts as lost. Pure."""

from flota.job.nodes import NodesSpec

LEASE = 5.0  # seconds of silence after which a node counts as lost
ETCD_LEASE = 3
NODES_PER_SECOND = 64  # of lease: with thousands of nodes leases are longer, or the store would only renew them


def lease_of(nodes: NodesSpec) -> int:
    """Seconds, whole as etcd wants them. There a node is given half as long again to come back, so it has less."""
    return max(ETCD_LEASE if nodes.etcd else int(LEASE), nodes.most // NODES_PER_SECOND)


def absence_of(nodes: NodesSpec) -> float:
    """Seconds until a node counts as lost whose lease has ended without a word."""
    return lease_of(nodes) / 2 if nodes.etcd else 0.0
