"""Assigns seats: first the nodes with an explicit --rank, then each node where it was before, then the rest in order.
Pure.
"""

from collections import Counter
from collections.abc import Iterable

from flota.cluster.job_state import take_seat
from flota.cluster.node_record import NodeRecord, Present
from flota.job.roster import Seat


def seat(present: list[Present], before: tuple[Seat, ...], *, by_address: bool = False) -> tuple[Seat, ...]:
    """The round's seats. Nodes of the last round keep theirs if the count allows; new nodes fill the gaps, on the same
    host as the last node there if possible."""
    places: list[Present | None] = [None] * len(present)
    old = {row.node: number for number, row in enumerate(before)}
    here = {one.node for one in present}
    free = {row.host: number for number, row in enumerate(before) if row.node not in here}
    waiting: list[tuple[tuple[object, ...], Present]] = []
    for one in sorted(present, key=lambda one: (one.record.rank < 0, one.record.rank, one.created)):
        wanted = one.record.rank if one.record.rank >= 0 else old.get(one.node, free.get(one.record.host, -1))
        if 0 <= wanted < len(places) and places[wanted] is None:
            places[wanted] = one
        else:
            # Nodes from the end of a larger round come before new ones, each group in its own order.
            waiting.append(((wanted < 0, wanted, *_order(one, by_address=by_address)), one))
    taken = (one for _, one in sorted(waiting, key=lambda row: row[0]))
    return tuple(take_seat(one.node, one.record) for one in (place or next(taken) for place in places))


def _order(one: Present, *, by_address: bool) -> tuple[object, ...]:
    """The sort key of a node. The one that serves the embedded master is node 0: all nodes know its address."""
    address = natural(one.record.address), one.created
    return address if by_address else (not one.record.serves, natural(one.record.host), *address)


def lacks_a_role(present: list[Present], before: tuple[Seat, ...]) -> bool:
    """Whether a role of the last round would have no node: servers without trainers would wait forever."""
    had, has = _by_role(row.workers_by_role for row in before), _by_role(one.record.workers_by_role for one in present)
    return any(count and not left for count, left in zip(had, has, strict=False))


def _by_role(counts: Iterable[tuple[int, ...]]) -> list[int]:
    return [sum(of_role) for of_role in zip(*counts, strict=False)]


def names_for_users(seats: tuple[Seat, ...]) -> dict[str, str]:
    """For each node its host name, with the node's number if another node of the round has the same host name."""
    counts = Counter(row.host for row in seats)
    return {
        row.node: f"{row.host} (node {number})" if counts[row.host] > 1 else row.host
        for number, row in enumerate(seats)
    }


def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """A sort key that puts host2 before host10."""
    parts: list[str] = [""]
    for letter in name:
        if parts[-1] and parts[-1][-1].isdecimal() == letter.isdecimal():
            parts[-1] += letter
        else:
            parts.append(letter)
    return tuple((not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts if part)


def imports_first(newcomer: NodeRecord, seats: tuple[Seat, ...], *, elastic: bool) -> bool:
    """Whether a running round goes on until a newcomer has finished its imports: all workers would wait for it. Not
    if it is on the host of a node of the round: that node may be lost, and the round with it."""
    return newcomer.warming and elastic and newcomer.host not in {row.host for row in seats}
