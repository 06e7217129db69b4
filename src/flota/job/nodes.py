"""How the nodes of a job find each other: the store's address, the number of nodes, timeouts. Pure."""

from __future__ import annotations

from flota.values import NamedTuple

# What the stop of a node is for: SIGTERM; --preempt_signal or --stop_before, which an elastic job may survive on
# nodes of another allocation; flota stop or --timeout.
ONE_NODE, ALLOCATION, WHOLE_JOB = "", "allocation", "job"


class Place(NamedTuple):
    """The address of a store."""

    host: str
    port: int


class Secrets(NamedTuple):
    """Credentials for the store. Never printed, never passed to workers."""

    token: str = ""  # the job's, for the embedded master
    user: str = ""  # for a real etcd
    password: str = ""
    certificate: str = ""  # paths
    key: str = ""
    authority: str = ""

    def __repr__(self) -> str:
        return "Secrets(…)"


class NodesSpec(NamedTuple):
    """The settings of this node for a job of several nodes."""

    least: int = 1
    most: int = 1
    spares: int = 0  # nodes beyond these, which wait to replace a lost one
    evict: float = 0.0  # a rank that is slower by this factor has its node swapped for a spare; 0: none has
    etcd: bool = False  # a real etcd; otherwise one node serves the embedded master
    members: bool = False  # with `etcd`: each host in `places` runs a member of it
    masters: int = 0  # the first nodes that join at `places` run so many members; 0: those that are listed
    places: tuple[Place, ...] = ()  # empty: this node serves the store, and prints its address
    spare_ports: tuple[int, ...] = ()  # for the embedded master, in this order, if the port of its place is taken
    tls: bool = False
    secrets: Secrets = Secrets()
    rank: int = -1  # the seat that this node requires; -1 for any
    hosts: tuple[str, ...] = ()  # the addresses of all nodes in order, if the user lists them
    serves: bool | None = None  # whether this node serves the embedded master; None: not specified
    sort_by_address: bool = False
    elastic_timeout: float = 30.0
    join_timeout: float = 600.0
    strict: bool = False  # end the job if nodes differ, not only with a warning
    words: tuple[str, ...] = ()  # the user's command line, without flags that are for this node only

    @property
    def elastic(self) -> bool:
        return self.least != self.most
