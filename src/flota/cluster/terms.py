"""What all nodes of a job must agree on, and what the coordinator says to one that does not. Pure."""

from __future__ import annotations

import zlib

from flota.cluster.node_record import SERVING, NodeRecord, Present
from flota.job.nodes import LEASE, NodesSpec, absence_of, lease_of
from flota.job.printable import printable
from flota.job.roles import COLLECTIVE
from flota.job.roster import NO_PORTS
from flota.job.spec import JobSpec, RestartPolicy
from flota.values import NamedTuple


class Terms(NamedTuple):
    """The job as the coordinator's own node was asked for it."""

    job: str
    least: int
    most: int
    frameworks: tuple[str, ...]
    policy: RestartPolicy = RestartPolicy()
    elastic_timeout: float = 30.0
    join_timeout: float = 600.0
    hosts: tuple[str, ...] = ()
    by_address: bool = False
    lease: float = LEASE
    absence: float = 0.0  # seconds until a node counts as lost whose record vanished without a word
    roles: tuple[str, ...] = ()
    serving: tuple[int, ...] = ()  # those of the roles that are there for others
    mode: str = COLLECTIVE
    agreed: str = ""

    @property
    def elastic(self) -> bool:
        return self.least != self.most


def terms_of(spec: JobSpec, nodes: NodesSpec) -> Terms:
    return Terms(
        printable(spec.job_id),
        nodes.least,
        nodes.most,
        spec.frameworks,
        spec.restarts,
        nodes.elastic_timeout,
        nodes.join_timeout,
        nodes.hosts,
        nodes.sort_by_address,
        lease=lease_of(nodes),
        absence=absence_of(nodes),
        roles=tuple(printable(role.name) for role in spec.roles),
        serving=tuple(number for number, role in enumerate(spec.roles) if role.serves),
        mode=spec.mode,
        agreed=agreed(spec),
    )


def blank_record(spec: JobSpec, nodes: NodesSpec, host: str, *, serves: bool) -> NodeRecord:
    """What a node says of itself before it has ports for a round."""
    return NodeRecord(
        job=printable(spec.job_id),
        host=printable(host),
        address=spec.address,
        ports=NO_PORTS,
        least=nodes.least,
        most=nodes.most,
        frameworks=spec.frameworks,
        rank=nodes.rank,
        serves=serves,
        roles=tuple(printable(role.name) for role in spec.roles),
        workers_by_role=tuple(role.workers for role in spec.roles),
        mode=spec.mode,
        agreed=agreed(spec),
    )


def disagreement(record: NodeRecord, terms: Terms) -> str:
    """Why a record can never take part in this job; empty if it can."""
    if record.job != terms.job:
        return f"it is of job `{record.job}`, this is job `{terms.job}`"
    if (record.least, record.most) != (terms.least, terms.most):
        return (
            f"it expects {count_of(record.least, record.most)} nodes, this job has {count_of(terms.least, terms.most)}"
        )
    if record.frameworks != terms.frameworks:
        return f"it is for {','.join(record.frameworks)}, this job is for {','.join(terms.frameworks)}"
    if record.rank >= terms.most:
        return f"rank {record.rank} in a job of {terms.most} nodes"
    return _disagreement_on_roles(record, terms)


def _disagreement_on_roles(record: NodeRecord, terms: Terms) -> str:
    if record.roles != terms.roles:
        return f"it has {_roles_in_words(record.roles)}, this job has {_roles_in_words(terms.roles)}"
    if record.mode != terms.mode:
        return f"its run mode is {record.mode}, this job's {terms.mode}"
    if record.agreed != terms.agreed:
        return "its lists of addresses, --gloo_port or --with_gloo are not this job's"
    return ""


def agreed(spec: JobSpec) -> str:
    """A sum over what each node's workers are told from its own flags: the lists themselves may be long."""
    if not spec.roles:
        return ""
    told = [*(",".join(role.endpoints) for role in spec.roles), str(spec.gloo_port), spec.gloo]
    return f"{zlib.crc32(';'.join(told).encode(errors='surrogateescape')):08x}"


def _roles_in_words(roles: tuple[str, ...]) -> str:
    return f"the roles {', '.join(roles)}" if roles else "trainers alone"


def no_room(record: NodeRecord, holders: dict[int, str], taken: int, terms: Terms) -> str:
    """Why there is no seat beside those who have one; empty if there is. `holders`: the hosts of ranks asked for."""
    if record.rank in holders:
        return f"rank {record.rank} is taken by {holders[record.rank]}"
    if taken >= terms.most:
        return f"the job has all of its {terms.most} nodes"
    return ""


def has_worked(record: NodeRecord, terms: Terms) -> bool:
    """Whether its own work is done, and it is there for others only."""
    work = (count for number, count in enumerate(record.workers_by_role) if number not in terms.serving)
    return record.state == SERVING and any(work)


def missing_in_words(present: list[Present], terms: Terms) -> str:
    """Who is here and who is not, by the best name there is for it."""
    here = f"{len(present)} of {count_of(terms.least, terms.most)} nodes: {names(present)}"
    if terms.hosts:
        absent = [host for host in terms.hosts if host not in {one.record.address for one in present}]
        return f"{here}; missing: {listed(absent)}" if absent else here
    ranks = [one.record.rank for one in present]
    if len(ranks) > 0 and min(ranks) >= 0:
        absent = [str(rank) for rank in range(terms.most) if rank not in ranks]
        return f"{here}; missing: rank {listed(absent)}" if absent else here
    return here


def prospects(present: list[Present], terms: Terms, late: list[str], begins: float, gives_up: float) -> str:
    """Whom the job waits for, and for how long."""
    here = missing_in_words(present, terms)
    if len(present) < terms.least:
        return f"{here}; gives up in {gives_up:.0f} s"
    waits = f"{were(sorted(late))} not ready yet" if late else f"these begin in {begins:.0f} s unless others come"
    return f"{here}; {waits}"


def names(present: list[Present]) -> str:
    return listed(sorted(one.record.host for one in present))


def were(words: list[str]) -> str:
    """The beginning of a sentence about some nodes."""
    return f"{listed(words)} {'were' if len(words) > 1 else 'was'}"


def listed(words: list[str]) -> str:
    shown = ", ".join(words[:8])
    return f"{shown} and {len(words) - 8} more" if len(words) > 8 else shown


def count_of(least: int, most: int) -> str:
    return str(most) if least == most else f"{least}:{most}"
