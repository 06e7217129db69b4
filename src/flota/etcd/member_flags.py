"""The command line of an etcd member, and the environment it gets. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from flota.frameworks import SECRETS
from flota.job.nodes import Place
from flota.job.roster import endpoint
from flota.values import NamedTuple

# A node's records are small; old revisions are dropped. Without fsync: after a power loss a member is replaced, so the
# data is never read again.
FIXED = (
    *("--heartbeat-interval", "100", "--election-timeout", "1000", "--unsafe-no-fsync"),
    *("--quota-backend-bytes", str(64 << 20), "--snapshot-count", "2000"),
    *("--auto-compaction-mode", "revision", "--auto-compaction-retention", "1000"),
    *("--logger", "zap", "--log-level", "warn", "--log-outputs", "stderr"),
)
# Variables with this prefix are flags of etcd, and its connections to other members would use a proxy.
NOT_FOR_ETCD = ("ETCD_", "etcd_")


class TlsFiles(NamedTuple):
    """Paths. Members and nodes verify each other with the same CA."""

    authority: str
    certificate: str
    key: str


def peer_place(place: Place) -> Place:
    """Where a member listens for the others: at the next port."""
    return Place(place.host, place.port + 1)


def name_of(place: Place) -> str:
    return endpoint(place.host, str(place.port))


def peer_url(place: Place, *, tls: bool) -> str:
    return _url(peer_place(place), tls=tls)


def initial_cluster(places: Iterable[Place], *, tls: bool) -> dict[str, str]:
    """Peer addresses by name."""
    return {name_of(place): peer_url(place, tls=tls) for place in places}


def cluster_token(places: Iterable[Place], job: str) -> str:
    """Members with another list or job id do not accept each other."""
    text = "\n".join([job, *map(name_of, places)])
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def command_line(
    program: str,
    place: Place,
    address: str,
    directory: str,
    cluster: Mapping[str, str],
    token: str,
    tls: TlsFiles | None,
    *,
    joins: bool,
) -> tuple[str, ...]:
    """`address`: where it listens, which must be numeric. `joins`: the cluster exists, and this member is new in it."""
    secure = tls is not None
    clients, peers = Place(address, place.port), peer_place(Place(address, place.port))
    flags = {
        "--name": name_of(place),
        "--data-dir": directory,
        "--initial-cluster": ",".join(f"{name}={url}" for name, url in cluster.items()),
        "--initial-cluster-token": token,
        "--initial-cluster-state": "existing" if joins else "new",
        "--listen-peer-urls": _url(peers, tls=secure),
        "--initial-advertise-peer-urls": peer_url(place, tls=secure),
        "--listen-client-urls": _url(clients, tls=secure),
        "--advertise-client-urls": _url(place, tls=secure),
    }
    words = [word for pair in flags.items() for word in pair]
    return (program, *words, *FIXED, *(_tls_flags(tls) if tls else ()))


def _tls_flags(tls: TlsFiles) -> tuple[str, ...]:
    return (
        *("--client-cert-auth", "--trusted-ca-file", tls.authority, "--cert-file", tls.certificate),
        *("--key-file", tls.key, "--peer-client-cert-auth", "--peer-trusted-ca-file", tls.authority),
        *("--peer-cert-file", tls.certificate, "--peer-key-file", tls.key),
    )


def member_environment(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environ.items()
        if name not in SECRETS and not name.startswith(NOT_FOR_ETCD) and not name.lower().endswith("_proxy")
    }
    return {**kept, "GOMAXPROCS": "1"}


def _url(place: Place, *, tls: bool) -> str:
    return f"{'https' if tls else 'http'}://{name_of(place)}"
