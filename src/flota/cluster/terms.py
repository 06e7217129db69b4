"""What all nodes of a job must agree on, and why a node that does not is refused. Pure."""

import zlib

from flota.cluster.lease_times import LEASE, absence_of, lease_of
from flota.cluster.node_record import SERVING, NodeRecord
from flota.job.nodes import NodesSpec
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
    log_time: str = ""  # for `{time}` in --log_dir, if this job begins with this coordinator

    @property
    def elastic(self) -> bool:
        return self.least != self.most


def terms_of(spec: JobSpec, nodes: NodesSpec, log_time: str = "") -> Terms:
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
        log_time=log_time,
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
    """Why a record can never take part in this job; empty if it can. Quick then: there may be thousands."""
    own = record.job, record.least, record.most, record.frameworks, record.roles, record.mode, record.agreed
    jobs = terms.job, terms.least, terms.most, terms.frameworks, terms.roles, terms.mode, terms.agreed
    if own == jobs and record.rank < terms.most:
        return ""
    nodes, jobs_nodes = count_of(record.least, record.most), count_of(terms.least, terms.most)
    frameworks, jobs_frameworks = ",".join(record.frameworks), ",".join(terms.frameworks)
    roles, jobs_roles = _roles_in_words(record.roles), _roles_in_words(terms.roles)
    checks = (
        (record.job != terms.job, f"it is of job `{record.job}`, this is job `{terms.job}`"),
        (nodes != jobs_nodes, f"it expects {nodes} nodes, this job has {jobs_nodes}"),
        (frameworks != jobs_frameworks, f"it is for {frameworks}, this job is for {jobs_frameworks}"),
        (record.rank >= terms.most, f"rank {record.rank} in a job of {terms.most} nodes"),
        (roles != jobs_roles, f"it has {roles}, this job has {jobs_roles}"),
        (record.mode != terms.mode, f"its run mode is {record.mode}, this job's {terms.mode}"),
        (record.agreed != terms.agreed, "its lists of addresses, --gloo_port or --with_gloo are not this job's"),
    )
    return next((why for disagrees, why in checks if disagrees), "")


def agreed(spec: JobSpec) -> str:
    """A sum over what each node's workers get from its own flags: the lists themselves may be long."""
    if not spec.roles:
        return ""
    parts = [*(",".join(role.endpoints) for role in spec.roles), str(spec.gloo_port), spec.gloo]
    return f"{zlib.crc32(';'.join(parts).encode(errors='surrogateescape')):08x}"


def _roles_in_words(roles: tuple[str, ...]) -> str:
    return f"the roles {', '.join(roles)}" if roles else "trainers alone"


def has_worked(record: NodeRecord, terms: Terms) -> bool:
    """Whether its own work is done, and it only serves the others."""
    work = (count for number, count in enumerate(record.workers_by_role) if number not in terms.serving)
    return record.state == SERVING and any(work)


def count_of(least: int, most: int) -> str:
    return str(most) if least == most else f"{least}:{most}"
