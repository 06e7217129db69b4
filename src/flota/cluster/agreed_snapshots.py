"""The states that the ranks of the next round load, from what all nodes have. Pure."""

from flota.cluster.node_record import Present
from flota.job.roles import TRAINER
from flota.job.roster import Seat
from flota.snapshots.agreement import AgreedStep, agree


def agree_on_snapshots(present: list[Present], seats: tuple[Seat, ...]) -> tuple[AgreedStep, ...]:
    """`present`: the nodes with a seat. A spare may have been asked for states of an earlier round."""
    holdings = {one.node: one.record.snapshots for one in present if one.record.snapshots}
    if not holdings:
        return ()
    roles = present[0].record.roles or (TRAINER,)
    places: dict[str, list[str]] = {}
    for number, name in enumerate(roles):
        for seat in seats:
            places.setdefault(name, []).extend([seat.node] * seat.workers_of(number))
    return agree(holdings, places, {one.node for one in present if one.record.copier})
