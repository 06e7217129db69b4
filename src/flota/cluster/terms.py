"""What all nodes of a job must agree on, and why a node that differs is refused. Pure."""

import zlib

from flota.cluster.differences import NodeFacts
from flota.cluster.lease_times import LEASE, absence_of, lease_of
from flota.cluster.node_record import SERVING, NodeRecord
from flota.job.nodes import NodesSpec
from flota.job.printable import printable
from flota.job.roles import COLLECTIVE
from flota.job.roster import NO_PORTS
from flota.job.spec import JobSpec, RestartPolicy
from flota.values import NamedTuple


class Terms(NamedTuple):
    """The job as the flags of the coordinator's node describe it."""

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
    absence: float = 0.0  # seconds after its record has vanished until a node counts as lost
    roles: tuple[str, ...] = ()
    serving: tuple[int, ...] = ()  # the roles that serve others, by number
    mode: str = COLLECTIVE
    agreed: str = ""
    run_name: str = ""  # the job state's, if this job begins with this coordinator
    strict: bool = False  # problems of nodes are errors
    spares: int = 0
    evict: float = 0.0  # a rank that is slower by this factor has its node swapped for a spare; 0: none has

    @property
    def elastic(self) -> bool:
        return self.least != self.most


def terms_of(spec: JobSpec, nodes: NodesSpec, run_name: str = "") -> Terms:
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
        run_name=run_name,
        strict=nodes.strict,
        spares=nodes.spares,
        evict=nodes.evict,
    )


def blank_record(
    spec: JobSpec,
    nodes: NodesSpec,
    host: str,
    *,
    serves: bool,
    facts: NodeFacts | None = None,
    control: str = "",
    copier: str = "",
) -> NodeRecord:
    """The record of a node before it has ports for a round."""
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
        spares=nodes.spares,
        mode=spec.mode,
        agreed=agreed(spec),
        facts=facts,
        control=control,
        copier=copier,
    )


def disagreement(record: NodeRecord, terms: Terms) -> str:
    """Why a node cannot take part in this job; empty if it can. Fast in that case: there may be thousands."""
    own = record.job, record.least, record.most, record.spares, record.frameworks, record.roles
    jobs = terms.job, terms.least, terms.most, terms.spares, terms.frameworks, terms.roles
    same = own == jobs and (record.mode, record.agreed) == (terms.mode, terms.agreed)
    if same and record.rank < terms.most:
        return ""
    nodes, jobs_nodes = count_of(record.least, record.most), count_of(terms.least, terms.most)
    frameworks, jobs_frameworks = ",".join(record.frameworks), ",".join(terms.frameworks)
    roles, jobs_roles = _roles_in_words(record.roles), _roles_in_words(terms.roles)
    checks = (
        (record.job != terms.job, f"its job id is `{record.job}`, this job's is `{terms.job}`"),
        (nodes != jobs_nodes, f"it expects {nodes} nodes, this job expects {jobs_nodes}"),
        (record.spares != terms.spares, f"it has --spares {record.spares}, this job has --spares {terms.spares}"),
        (frameworks != jobs_frameworks, f"it uses {frameworks}, this job uses {jobs_frameworks}"),
        (record.rank >= terms.most, f"rank {record.rank} is out of range in a job of {terms.most} nodes"),
        (roles != jobs_roles, f"it has {roles}, this job has {jobs_roles}"),
        (record.mode != terms.mode, f"its run mode is {record.mode}, this job's is {terms.mode}"),
        (
            record.agreed != terms.agreed,
            "its address lists (also in --master), --gloo_port or --with_gloo differ from this job's",
        ),
    )
    return next((why for disagrees, why in checks if disagrees), "")


def agreed(spec: JobSpec) -> str:
    """A checksum of flags that must be the same on all nodes: the lists themselves may be long."""
    parts: list[str] = []
    if spec.roles:
        parts = [*(",".join(role.endpoints) for role in spec.roles), str(spec.gloo_port), spec.gloo]
    if spec.nodes and spec.nodes.members:  # in one spelling: etcd compares the texts as well
        parts += [",".join(f"{host}:{port}" for host, port in spec.nodes.places)]
    if not parts:
        return ""
    return f"{zlib.crc32(';'.join(parts).encode(errors='surrogateescape')):08x}"


def _roles_in_words(roles: tuple[str, ...]) -> str:
    return f"the roles {', '.join(roles)}" if roles else "only trainers"


def has_finished_work(record: NodeRecord, terms: Terms) -> bool:
    """Whether it had work of its own, which is done, and now only serves other nodes."""
    work = (count for number, count in enumerate(record.workers_by_role) if number not in terms.serving)
    return record.state == SERVING and any(work)


def count_of(least: int, most: int) -> str:
    return str(most) if least == most else f"{least}:{most}"
