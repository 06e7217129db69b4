"""Who sits where: wishes first, then everybody where they sat before, then the rest in order. Pure."""

from __future__ import annotations

from flota.cluster.job_state import take_seat
from flota.cluster.node_record import Present
from flota.job.roster import Seat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Sortable = tuple[object, ...]


def seat(present: list[Present], before: tuple[Seat, ...], *, by_address: bool = False) -> tuple[Seat, ...]:
    """The round's seats. Survivors keep theirs where the count allows; newcomers take the holes."""
    places: list[Present | None] = [None] * len(present)
    old = {row.node: number for number, row in enumerate(before)}
    waiting: list[Present] = []
    for one in sorted(present, key=lambda one: (one.record.rank < 0, one.record.rank, one.came)):
        wish = one.record.rank if one.record.rank >= 0 else old.get(one.node, -1)
        if 0 <= wish < len(places) and places[wish] is None:
            places[wish] = one
        else:
            waiting.append(one)
    # Those who sat at the end of a larger round come before newcomers, each group in its own order.
    waiting.sort(key=lambda one: (*_seat_before(one, old), *_order(by_address)(one)))
    taken = iter(waiting)
    return tuple(take_seat(one.node, one.record) for one in (seat or next(taken) for seat in places))


def lacks_a_role(present: list[Present], before: tuple[Seat, ...]) -> bool:
    """Whether a role of the round before would have nobody left: servers without trainers would serve for ever."""
    had, has = _by_role(row.workers_by_role for row in before), _by_role(one.record.workers_by_role for one in present)
    return any(count and not left for count, left in zip(had, has, strict=False))


def _by_role(counts: Iterable[tuple[int, ...]]) -> list[int]:
    return [sum(of_role) for of_role in zip(*counts, strict=False)]


def _seat_before(one: Present, old: dict[str, int]) -> tuple[bool, int]:
    wish = one.record.rank if one.record.rank >= 0 else old.get(one.node, -1)
    return wish < 0, wish


def _order(by_address: bool) -> Callable[[Present], Sortable]:  # noqa: FBT001
    return _address_order if by_address else _host_order


def _address_order(one: Present) -> Sortable:
    return natural(one.record.address), one.came


def _host_order(one: Present) -> Sortable:
    """The node that serves the embedded master is node 0: its address is the one that everybody knows."""
    return not one.record.serves, natural(one.record.host), natural(one.record.address), one.came


def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """host2 before host10: digits count as numbers."""
    parts: list[str] = [""]
    for letter in name:
        if parts[-1] and parts[-1][-1].isdecimal() == letter.isdecimal():
            parts[-1] += letter
        else:
            parts.append(letter)
    return tuple((not part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts if part)
