"""Which ranks block the others: groups ranks by what they wait on, and finds those that differ. Pure."""

from flota.hangs.wait_sites import COLLECTIVE, ENDED, HALTED, WAITS, RankPosition
from flota.humanize import noun, workers_in_words
from flota.job.roles import TRAINER

Positions = tuple[RankPosition, ...]

MOST_GROUPS = 6  # on the console; the file has all
MOST_RANKS = 8
NO_SUSPECT = "no rank stands out"


def find_suspects(positions: Positions) -> Positions:
    """Ranks that wait for others are not to blame; a rank elsewhere is a suspect. Empty if no rank stands out."""
    ended = tuple(one for one in positions if one.kind == ENDED)
    running = tuple(one for one in positions if one.kind != ENDED)
    halted = tuple(one for one in positions if one.kind == HALTED)
    if halted:
        return halted if len(halted) < len(running) or len(running) == 1 else ()
    # Ranks in a collective do not wait on sockets in the user's code: a rank that does is elsewhere.
    waiting = COLLECTIVE if any(one.kind == COLLECTIVE for one in positions) else WAITS
    elsewhere = tuple(one for one in running if one.kind != waiting)
    if elsewhere and (2 * len(elsewhere) <= len(running) or len(running) == 1):
        return elsewhere
    if elsewhere:
        return _minority(running)
    if ended or len(positions) < 2:
        return ended
    return _minority(positions) if waiting == COLLECTIVE else _minority_of_waits(positions)


def _minority(positions: Positions) -> Positions:
    """The ranks that are not in the largest group, if it has more than half of the ranks."""
    [most, *_] = groups_of(positions)
    return tuple(one for one in positions if one not in most) if 2 * len(most) > len(positions) else ()


def _minority_of_waits(positions: Positions) -> Positions:
    """A few ranks that wait at one socket call while all others wait at another. In a collective over sockets some
    ranks have another part: the root of a gather, which is rank 0, or the inner ranks of a tree, which are many."""
    _, *others = groups_of(positions)
    if len(others) != 1 or 3 * len(others[0]) > len(positions) or len({one.role for one in positions}) > 1:
        return ()
    return others[0] if all(one.rank for one in others[0]) else ()


def groups_of(positions: Positions) -> list[Positions]:
    """Ranks grouped by what they wait on, the largest group first."""
    groups: dict[tuple[str, str], list[RankPosition]] = {}
    for one in positions:
        groups.setdefault((one.role, one.words), []).append(one)
    return sorted(map(tuple, groups.values()), key=lambda group: (-len(group), group[0].rank))


def groups_in_words(positions: Positions) -> tuple[str, ...]:
    """One line per group: `7 of 8 ranks: in all_reduce at train.py:88`, `rank 3: in next(loader) at data.py:41`."""
    groups = groups_of(positions)
    lines = [f"{_group_in_words(group, positions)}: {group[0].words}" for group in groups[:MOST_GROUPS]]
    left = sum(len(group) for group in groups[MOST_GROUPS:])
    return (*lines, *([f"{left} more elsewhere"] if left else []))


def _group_in_words(group: Positions, positions: Positions) -> str:
    role = group[0].role
    size, of_role = len(group), sum(one.role == role for one in positions)
    name = noun("rank" if role == TRAINER else role, 2)
    if size == 1:
        return f"{group[0].label}{f' on {group[0].host}' if group[0].host else ''}"
    if size == of_role:
        return f"all {size} {name}"
    return f"{size} of {of_role} {name}" if 2 * size > of_role else _ranks_in_words(group)


def _ranks_in_words(positions: Positions) -> str:
    """Ranks by number, for example `ranks 2, 5`."""
    more = f" and {len(positions) - MOST_RANKS} more" if len(positions) > MOST_RANKS else ""
    return f"{workers_in_words((one.role, one.rank) for one in positions[:MOST_RANKS])}{more}"


def hang_in_words(positions: Positions) -> tuple[str, ...]:
    """Which ranks block the others, and what each rank waits on."""
    return tuple(filter(None, (suspects_in_words(positions), *groups_in_words(positions))))


def snapshot_in_words(positions: Positions) -> tuple[str, ...]:
    """The same for `flota stack`: the job may be healthy."""
    hang = [f"if this is a hang: {suspects_in_words(positions)}"] if len(positions) > 1 else []
    return (*groups_in_words(positions), *hang)


def suspects_in_words(positions: Positions) -> str:
    """A sentence that names the suspects, or says that there are none; empty for a single rank."""
    suspects = find_suspects(positions)
    hosts = sorted({one.host for one in suspects or positions if one.host})
    if suspects:
        on = f" on {', '.join(hosts)}" if hosts else ""
        verb = "blocks" if len(suspects) == 1 else "block"
        return f"{_ranks_in_words(suspects)}{on} {verb} the others" if len(positions) > 1 else ""
    if len(hosts) > 1 and all(one.kind in (COLLECTIVE, WAITS) for one in positions):
        between = " and ".join(hosts[:MOST_RANKS])
        return f"{NO_SUSPECT}: all are waiting for each other; check the network between {between}"
    return NO_SUSPECT
