"""What nodes know of themselves when they join, and which of it costs minutes of silence later: differences between
nodes, and what a node lacks. Pure.
"""

from __future__ import annotations

from msgspec import Struct

from flota.humanize import list_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flota.cluster.node_record import NodeRecord

LEAST_SHM = 64 << 20  # bytes: what Docker gives a container, which is too little for data loaders of several workers
LEAST_FILES = 1024
MOST_OFFSET = 1.0  # seconds by which a clock may differ from the coordinator's
MOST_NAMED = 4  # hosts


class NodeFacts(Struct, frozen=True, omit_defaults=True):
    """What is not known is empty, or -1."""

    python: str = ""  # of the workers' interpreter, as in 3.11
    flota: str = ""
    frameworks: tuple[tuple[str, str], ...] = ()  # names and versions
    script: str = ""  # the beginning of its sha256
    shm: int = -1  # free bytes in /dev/shm, if they are few
    files: int = -1  # open files that are allowed, if they are few

    @property
    def texts(self) -> tuple[str, ...]:
        return self.python, self.flota, self.script, *(text for pair in self.frameworks for text in pair)


def find_problems(records: Sequence[NodeRecord], clock_offsets: Mapping[str, float]) -> tuple[str, ...]:
    """One sentence per problem. `clock_offsets`: by host, in seconds."""
    records = sorted(records, key=lambda record: record.host)
    known = [(record.host, record.facts) for record in records if record.facts]
    lines: list[str] = []
    if len({facts for _, facts in known}) > 1:
        names = sorted({name for _, facts in known for name, _ in facts.frameworks})
        lines += _differing("versions of Python", ((host, facts.python) for host, facts in known))
        lines += _differing("versions of flota", ((host, facts.flota) for host, facts in known))
        for name in names:
            versions = ((host, dict(facts.frameworks).get(name, "")) for host, facts in known)
            lines += _differing(f"versions of {name}", versions)
        lines += _differing("scripts", ((host, facts.script) for host, facts in known), "sha256 ")
    for host, offset in sorted(clock_offsets.items()):
        if abs(offset) > MOST_OFFSET:
            lines.append(f"the clock of {host} is {abs(offset):.1f} s {'ahead' if offset > 0 else 'behind'}")
    for host, facts in known:
        if facts.shm >= 0:
            lines.append(f"{host} has only {facts.shm >> 20} MiB free in /dev/shm, which data loaders use")
        if facts.files >= 0:
            lines.append(f"{host} allows only {facts.files} open files: raise `ulimit -n`")
    if len({record.host for record in records}) > 1:
        local = [record for record in records if record.address.startswith("127.") or record.address == "::1"]
        lines += [f"other nodes cannot reach {record.host} at {record.address}: set --host there" for record in local]
    return tuple(dict.fromkeys(lines))


def with_unreached(problems: tuple[str, ...], records: Sequence[NodeRecord]) -> tuple[str, ...]:
    """Add which node cannot reach the next one of the round."""
    rows = [(record.host, record.unreached) for record in records if record.unreached]
    found = (f"{host} cannot reach {where}: workers may wait for each other" for host, where in rows)
    return tuple(dict.fromkeys((*problems, *found)))


def _differing(what: str, values: Iterable[tuple[str, str]], before: str = "") -> list[str]:
    """For example `the nodes have different versions of Python: 3.11 on host1, host2; 3.10 on host3`."""
    hosts: dict[str, list[str]] = {}
    for host, value in values:
        if value:
            hosts.setdefault(value, []).append(host)
    if len(hosts) < 2:
        return []
    groups = sorted(hosts.items(), key=lambda group: -len(group[1]))
    words = [f"{before}{value} on {list_in_words(list(dict.fromkeys(named)), MOST_NAMED)}" for value, named in groups]
    return [f"the nodes have different {what}: {'; '.join(words)}"]
