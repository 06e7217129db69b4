"""Which ranks of a job `flota logs` shows. Pure."""

from __future__ import annotations

from collections.abc import Collection

from flota.errors import NoRankInJob, UnknownNode, UnknownRole
from flota.humanize import workers_in_words
from flota.job.printable import printable
from flota.job.roles import TRAINER, label
from flota.logs.merge_lines import Speaker
from flota.values import NamedTuple

MOST_IN_RANGE = 10_000


def parse_ranks(text: str) -> tuple[int, ...]:
    """Ranks and ranges of them, such as `3,5-7`. Raises ValueError."""
    ranks: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        last = high if dash else low
        if not (low.isdecimal() and last.isdecimal() and int(low) <= int(last) <= int(low) + MOST_IN_RANGE):
            raise ValueError(part)
        ranks += range(int(low), int(last) + 1)
    return tuple(ranks)


class Choice(NamedTuple):
    """What the user has asked for; None: no restriction. Nothing at all means the first rank, unless `all` is set."""

    ranks: tuple[int, ...] | None = None
    role: str | None = None
    node: str | None = None  # a number or a host name
    all: bool = False

    def completed(self, found: Collection[Speaker]) -> Choice:
        """With the defaults for a job that has these ranks."""
        roles = list(dict.fromkeys(one.role for one in found))
        lead = TRAINER if TRAINER in roles or not roles else roles[0]
        if self.all:
            return self
        if self == Choice():
            return Choice((min((one.rank for one in found if one.role == lead), default=0),), lead)
        return self._replace(role=lead) if self.role is None and self.ranks is not None else self

    def has(self, one: Speaker) -> bool:
        return (
            (self.ranks is None or one.rank in self.ranks)
            and self.role in (None, one.role)
            and self.node in (None, one.host, str(one.node))
        )

    def is_complete(self, found: Collection[Speaker]) -> bool:
        """Whether these are all that is asked for, whatever other nodes have."""
        return (
            self.ranks is not None
            and self.role is not None
            and self.node is None
            and {one.rank for one in found if self.has(one)} >= set(self.ranks)
        )

    def check(self, found: Collection[Speaker]) -> None:
        """Report what a job with these ranks does not have."""
        if self.node is not None and not any(self.node in (one.host, str(one.node)) for one in found):
            nodes = dict.fromkeys(f"{one.node} ({one.host})" for one in sorted(found, key=lambda one: one.node))
            raise UnknownNode(self.node, ", ".join(nodes))
        if self.role is not None and not any(one.role == self.role for one in found):
            raise UnknownRole(printable(self.role), ", ".join(dict.fromkeys(one.role for one in found)))
        within = self._replace(ranks=None)
        there = sorted({(one.role, one.rank) for one in found if within.has(one)})
        missing = [rank for rank in self.ranks or () if rank not in {rank for _, rank in there}]
        if missing or not there:
            name = label(self.role or TRAINER, missing[0]) if missing else self.role or "rank"
            where = f" on node {self.node}" if self.node is not None else ""
            raise NoRankInJob(f"{name}{where}", workers_in_words(there) or "none")
