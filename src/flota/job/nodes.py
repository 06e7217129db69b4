"""How the nodes of a job find each other: where they meet, how many they are, and for how long they wait. Pure."""

from __future__ import annotations

from flota.values import NamedTuple


class Place(NamedTuple):
    """An address where a store answers."""

    host: str
    port: int


class Secrets(NamedTuple):
    """What opens the store. Never shown, never handed to workers."""

    token: str = ""  # of the job, for the embedded master
    user: str = ""  # of a real etcd
    password: str = ""
    certificate: str = ""  # paths
    key: str = ""
    authority: str = ""

    def __repr__(self) -> str:
        return "Secrets(…)"


class NodesSpec(NamedTuple):
    """A job of several nodes, as asked for on this one."""

    least: int = 1
    most: int = 1
    etcd: bool = False  # a real etcd; otherwise one of the nodes serves the embedded master
    places: tuple[Place, ...] = ()  # none: this node serves, and says where
    tls: bool = False
    secrets: Secrets = Secrets()
    rank: int = -1  # the seat this node insists on
    hosts: tuple[str, ...] = ()  # the addresses of all nodes in order, where the user has listed them
    serves: bool | None = None  # whether this node serves the embedded master, where the user has said so
    sort_by_address: bool = False
    elastic_timeout: float = 30.0
    join_timeout: float = 600.0
    words: tuple[str, ...] = ()  # the user's own, less what is meant for this node alone

    @property
    def elastic(self) -> bool:
        return self.least != self.most
