"""Who makes the others wait: ranks grouped by where they stand, and the odd ones among them. Pure."""

from __future__ import annotations

from flota.hangs.wait_sites import COLLECTIVE, ENDED, HALTED, WAITS, RankPosition
from flota.job.roles import TRAINER
from flota.wording import counts_in_words

MOST_GROUPS = 6  # told on a screen; the file has all
MOST_RANKS = 8
NOBODY = "no rank stands out"


def find_suspects(positions: tuple[RankPosition, ...]) -> tuple[RankPosition, ...]:
    """Those that wait for others are victims, and who is elsewhere is a suspect. None where nobody stands out."""
    ended = tuple(post for post in positions if post.kind == ENDED)
    standing = tuple(post for post in positions if post.kind != ENDED)
    halted = tuple(post for post in positions if post.kind == HALTED)
    if halted:
        return halted if len(halted) < len(standing) or len(standing) == 1 else ()
    # Ranks that meet in a framework's collective do not meet at sockets of their own: who waits at one is elsewhere.
    victims = COLLECTIVE if any(post.kind == COLLECTIVE for post in positions) else WAITS
    elsewhere = tuple(post for post in standing if post.kind != victims)
    if elsewhere and (2 * len(elsewhere) <= len(standing) or len(standing) == 1):
        return elsewhere
    if elsewhere:
        return _minority(standing)
    if ended or len(positions) < 2:
        return ended
    return _minority(positions) if victims == COLLECTIVE else _apart(positions)


def _minority(positions: tuple[RankPosition, ...]) -> tuple[RankPosition, ...]:
    """All but those at the place where most are."""
    [most, *_] = groups_of(positions)
    return tuple(post for post in positions if post not in most) if 2 * len(most) > len(positions) else ()


def _apart(positions: tuple[RankPosition, ...]) -> tuple[RankPosition, ...]:
    """Few that wait at one socket while all others wait at another. Of a collective that is made of sockets some ranks
    do another part than others: the root of a gather, which is rank 0, or the inner ranks of a tree, which are many."""
    most, *others = groups_of(positions)
    if len(others) != 1 or 3 * len(others[0]) > len(positions) or {post.role for post in positions} != {most[0].role}:
        return ()
    return others[0] if all(post.rank for post in others[0]) else ()


def groups_of(positions: tuple[RankPosition, ...]) -> list[tuple[RankPosition, ...]]:
    """By where they stand, the largest group first."""
    groups: dict[tuple[str, str], list[RankPosition]] = {}
    for post in positions:
        groups.setdefault((post.role, post.words), []).append(post)
    return sorted((tuple(group) for group in groups.values()), key=lambda group: (-len(group), group[0].rank))


def groups_in_words(positions: tuple[RankPosition, ...]) -> tuple[str, ...]:
    """One line a group: `7 of 8 ranks: in all_reduce at train.py:88`, `rank 3: in next(loader) at data.py:41`."""
    groups = groups_of(positions)
    lines = [f"{_who(group, positions)}: {group[0].words}" for group in groups[:MOST_GROUPS]]
    left = sum(len(group) for group in groups[MOST_GROUPS:])
    return (*lines, *([f"{left} more, each elsewhere"] if left else []))


def _who(group: tuple[RankPosition, ...], positions: tuple[RankPosition, ...]) -> str:
    role = group[0].role
    of_role = [post for post in positions if post.role == role]
    if len(group) == 1:
        return f"{group[0].label}{f' on {group[0].host}' if group[0].host else ''}"
    if len(group) == len(of_role):
        return f"all {len(group)} ranks" if role == TRAINER else f"all {counts_in_words({role: len(group)})}"
    if 2 * len(group) > len(of_role):
        return f"{len(group)} of {len(of_role)} ranks" if role == TRAINER else f"{len(group)} of {len(of_role)} {role}s"
    return listed(group)


def listed(positions: tuple[RankPosition, ...]) -> str:
    """Ranks by number, e.g. `ranks 2, 5`."""
    if len(positions) == 1:
        return positions[0].label
    numbers = ", ".join(str(post.rank) for post in positions[:MOST_RANKS])
    more = f" and {len(positions) - MOST_RANKS} more" if len(positions) > MOST_RANKS else ""
    name = "rank" if positions[0].role == TRAINER else positions[0].role
    return f"{name}s {numbers}{more}"


def in_words(positions: tuple[RankPosition, ...]) -> tuple[str, ...]:
    """Who makes the others wait, and who stands where."""
    return tuple(filter(None, (suspicion(positions, find_suspects(positions)), *groups_in_words(positions))))


def suspicion(positions: tuple[RankPosition, ...], suspects: tuple[RankPosition, ...]) -> str:
    """The sentence that names them, or says that nobody can be named."""
    if suspects:
        hosts = sorted({post.host for post in suspects if post.host})
        on = f" on {', '.join(hosts)}" if hosts else ""
        return f"{listed(suspects)}{on} make{'s' * (len(suspects) == 1)} the others wait" if len(positions) > 1 else ""
    hosts = sorted({post.host for post in positions if post.host})
    if len(hosts) > 1 and all(post.kind in (COLLECTIVE, WAITS) for post in positions):
        return f"{NOBODY}: all wait for each other; look at the network between {' and '.join(hosts[:MOST_RANKS])}"
    return NOBODY
