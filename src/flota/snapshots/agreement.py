"""Which step the ranks of a round load: the newest of which every rank can get its state. Pure."""

from __future__ import annotations

from flota.values import NamedTuple
from flota.worker.snapshot_layout import LARGEST_STEP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    Holdings = Mapping[str, tuple["HeldSnapshot", ...]]  # by node

MOST_STEPS = 16  # of one rank in one place
ALL_RANKS = -1  # the parts of all ranks are in one directory


class HeldSnapshot(NamedTuple):
    """The states of one rank, or of all, that a node has, in its memory or on its disk, while no worker runs."""

    role: str
    rank: int
    world: int
    sharded: bool
    steps: tuple[int, ...]


class RankSource(NamedTuple):
    """Where one rank's state comes from: the state of `source`, which is `rank` unless all ranks have the same state.
    `node`: one that has it; empty if the rank's own node does."""

    rank: int
    source: int
    node: str = ""


class AgreedStep(NamedTuple):
    """What the ranks of a role load. `others`: ranks that do not load their own state from their own node."""

    role: str
    step: int
    world: int  # the number of ranks when the state was saved
    sharded: bool = False
    others: tuple[RankSource, ...] = ()

    def source_of(self, rank: int) -> RankSource:
        return next((one for one in self.others if one.rank == rank), RankSource(rank, rank))


def agree(
    holdings: Holdings, places: Mapping[str, list[str]], reachable: Collection[str] | None = None
) -> tuple[AgreedStep, ...]:
    """`places`: by role, the node of each rank of the next round. `reachable`: the nodes from which others can fetch
    states; None: all. A role without a common step is left out."""
    senders = holdings.keys() if reachable is None else reachable
    found = (_agree_on_role(role, nodes, holdings, senders) for role, nodes in places.items())
    return tuple(agreed for agreed in found if agreed)


def _agree_on_role(role: str, nodes: list[str], holdings: Holdings, senders: Collection[str]) -> AgreedStep | None:
    """Every rank's own state is best: ranks may differ in what they have read and drawn. Otherwise, if all ranks have
    the same state, any rank's newest state is enough."""
    held = [
        (node, each) for node, ones in holdings.items() for one in ones if one.role == role for each in _ranks_of(one)
    ]
    world = len(nodes)
    own: dict[int, dict[int, list[str]]] = {}  # step, rank: nodes that have it
    for node, one in held:
        for step in one.steps:
            if one.world == world:
                own.setdefault(step, {}).setdefault(one.rank, []).append(node)
    common = [
        step for step, ranks in own.items() if _all_can_get(nodes, [ranks.get(n, []) for n in range(world)], senders)
    ]
    if common:
        step = max(common)
        sources = (_nearest(rank, rank, nodes[rank], own[step][rank], senders) for rank in range(world))
        sharded = any(one.sharded for _, one in held if step in one.steps)
        return AgreedStep(role, step, world, sharded, tuple(one for one in sources if one.node))
    same = [(node, one) for node, one in held if not one.sharded and one.steps]
    having = {step: [node for node, one in same if step in one.steps] for _, one in same for step in one.steps}
    step = max((step for step, some in having.items() if _all_can_get(nodes, [some] * world, senders)), default=-1)
    if step < 0:
        return _for_reshaping(role, held)
    holders = {one.rank: [node for node, other in same if other.rank == one.rank and step in other.steps]
               for _, one in same if step in one.steps}  # fmt: skip
    chosen = (_nearest_replica(rank, nodes[rank], holders, senders) for rank in range(world))
    was = max(one.world for _, one in same if step in one.steps)
    return AgreedStep(role, step, was, False, tuple(one for one in chosen if one.node or one.source != one.rank))  # noqa: FBT003


def _ranks_of(held: HeldSnapshot) -> list[HeldSnapshot]:
    return [held] if held.rank != ALL_RANKS else [held._replace(rank=rank) for rank in range(held.world)]


def _for_reshaping(role: str, held: list[tuple[str, HeldSnapshot]]) -> AgreedStep | None:
    """A sharded state of another number of ranks: workers refuse it, unless the script has a function for it."""
    ranks: dict[tuple[int, int], set[int]] = {}
    for one in (one for _, one in held if one.sharded):
        for step in one.steps:
            ranks.setdefault((step, one.world), set()).add(one.rank)
    whole = [(step, world) for (step, world), found in ranks.items() if len(found) == world]
    return AgreedStep(role, *max(whole), sharded=True) if whole else None


def _all_can_get(places: list[str], having: list[list[str]], senders: Collection[str]) -> bool:
    """Whether each rank's node has its state, or can fetch it. `having`: by rank, the nodes that have it."""
    return all(
        place in nodes or any(map(senders.__contains__, nodes)) for place, nodes in zip(places, having, strict=True)
    )


def _nearest(rank: int, source: int, place: str, nodes: list[str], senders: Collection[str]) -> RankSource:
    return RankSource(rank, source, "" if place in nodes else min(node for node in nodes if node in senders))


def _nearest_replica(rank: int, place: str, holders: Mapping[int, list[str]], senders: Collection[str]) -> RankSource:
    """The rank's own state, or any other on its node, or any that can be fetched."""
    own = [rank] if rank in holders and place in holders[rank] else []
    here = own or sorted(source for source, nodes in holders.items() if place in nodes)
    source = (here or sorted(source for source, nodes in holders.items() if any(map(senders.__contains__, nodes))))[0]
    return _nearest(rank, source, place, holders[source], senders)


def is_sound_holding(held: Iterable[HeldSnapshot]) -> bool:
    """Whether values from another node can be used."""
    return all(
        ALL_RANKS <= one.rank < one.world
        and 0 < one.world <= 1 << 20
        and len(one.steps) <= MOST_STEPS
        and all(0 <= step <= LARGEST_STEP for step in one.steps)
        for one in held
    )
