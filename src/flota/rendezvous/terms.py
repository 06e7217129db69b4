"""What all nodes of a job must agree on, and what the chair says to one that does not."""

from __future__ import annotations

import zlib

from flota.job.meeting import LEASE, Meeting, absence_of, lease_of
from flota.job.roles import COLLECTIVE
from flota.job.spec import JobSpec, RestartPolicy
from flota.rendezvous.cards import SERVING, Card, Present, sendable
from flota.values import NamedTuple


class Terms(NamedTuple):
    """The job as the chair's own node was asked for it."""

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
    absence: float = 0.0  # seconds until a node counts as lost whose card vanished without a word
    roles: tuple[str, ...] = ()
    serving: tuple[int, ...] = ()  # those of the roles that are there for others
    mode: str = COLLECTIVE
    agreed: str = ""

    @property
    def elastic(self) -> bool:
        return self.least != self.most


def terms_of(spec: JobSpec, meeting: Meeting) -> Terms:
    return Terms(
        sendable(spec.job_id),
        meeting.least,
        meeting.most,
        spec.frameworks,
        spec.restarts,
        meeting.elastic_timeout,
        meeting.join_timeout,
        meeting.hosts,
        meeting.sort_by_address,
        lease=lease_of(meeting),
        absence=absence_of(meeting),
        roles=tuple(sendable(role.name) for role in spec.roles),
        serving=tuple(number for number, role in enumerate(spec.roles) if role.serves),
        mode=spec.mode,
        agreed=agreed(spec),
    )


def blank_card(spec: JobSpec, meeting: Meeting, host: str, *, serves: bool) -> Card:
    """What a node says of itself before it has ports for a round."""
    return Card(
        job=sendable(spec.job_id),
        host=sendable(host),
        address=spec.address,
        ports=(),
        least=meeting.least,
        most=meeting.most,
        frameworks=spec.frameworks,
        rank=meeting.rank,
        serves=serves,
        roles=tuple(sendable(role.name) for role in spec.roles),
        counts=tuple(role.workers for role in spec.roles),
        mode=spec.mode,
        agreed=agreed(spec),
    )


def disagreement(card: Card, terms: Terms) -> str:
    """Why a card can never take part in this job; empty if it can."""
    if card.job != terms.job:
        return f"it is of job `{card.job}`, this is job `{terms.job}`"
    if (card.least, card.most) != (terms.least, terms.most):
        return f"it expects {count_of(card.least, card.most)} nodes, this job has {count_of(terms.least, terms.most)}"
    if card.frameworks != terms.frameworks:
        return f"it is for {','.join(card.frameworks)}, this job is for {','.join(terms.frameworks)}"
    if card.rank >= terms.most:
        return f"rank {card.rank} in a job of {terms.most} nodes"
    return _disagreement_on_roles(card, terms)


def _disagreement_on_roles(card: Card, terms: Terms) -> str:
    if card.roles != terms.roles:
        return f"it has {_roles_in_words(card.roles)}, this job has {_roles_in_words(terms.roles)}"
    if card.mode != terms.mode:
        return f"its run mode is {card.mode}, this job's {terms.mode}"
    if card.agreed != terms.agreed:
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


def no_room(card: Card, holders: dict[int, str], taken: int, terms: Terms) -> str:
    """Why there is no seat beside those who have one; empty if there is. `holders`: the hosts of ranks asked for."""
    if card.rank in holders:
        return f"rank {card.rank} is taken by {holders[card.rank]}"
    if taken >= terms.most:
        return f"the job has all of its {terms.most} nodes"
    return ""


def has_worked(card: Card, terms: Terms) -> bool:
    """Whether its own work is done, and it is there for others only."""
    work = (count for number, count in enumerate(card.counts) if number not in terms.serving)
    return card.state == SERVING and any(work)


def missing_in_words(present: list[Present], terms: Terms) -> str:
    """Who is here and who is not, by the best name there is for it."""
    here = f"{len(present)} of {count_of(terms.least, terms.most)} nodes: {names(present)}"
    if terms.hosts:
        absent = [host for host in terms.hosts if host not in {one.card.address for one in present}]
        return f"{here}; missing: {listed(absent)}" if absent else here
    ranks = [one.card.rank for one in present]
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
    return listed(sorted(one.card.host for one in present))


def were(words: list[str]) -> str:
    """The beginning of a sentence about some nodes."""
    return f"{listed(words)} {'were' if len(words) > 1 else 'was'}"


def listed(words: list[str]) -> str:
    shown = ", ".join(words[:8])
    return f"{shown} and {len(words) - 8} more" if len(words) > 8 else shown


def count_of(least: int, most: int) -> str:
    return str(most) if least == most else f"{least}:{most}"
