"""Who makes the others wait: ranks grouped by where they stand, and the odd ones among them."""

from __future__ import annotations

from flota.job.roles import TRAINER
from flota.supervise.blame import counts_in_words
from flota.supervise.places import COLLECTIVE, ENDED, HALTED, WAITS, Post

MOST_GROUPS = 6  # told on a screen; the file has all
MOST_RANKS = 8
NOBODY = "no rank stands out"


def find_suspects(posts: tuple[Post, ...]) -> tuple[Post, ...]:
    """Those that wait for others are victims, and who is elsewhere is a suspect. None where nobody stands out."""
    ended = tuple(post for post in posts if post.kind == ENDED)
    standing = tuple(post for post in posts if post.kind != ENDED)
    halted = tuple(post for post in posts if post.kind == HALTED)
    if halted:
        return halted if len(halted) < len(standing) or len(standing) == 1 else ()
    # Ranks that meet in a framework's collective do not meet at sockets of their own: who waits at one is elsewhere.
    victims = COLLECTIVE if any(post.kind == COLLECTIVE for post in posts) else WAITS
    elsewhere = tuple(post for post in standing if post.kind != victims)
    if elsewhere and (2 * len(elsewhere) <= len(standing) or len(standing) == 1):
        return elsewhere
    if elsewhere:
        return _minority(standing)
    if ended or len(posts) < 2:
        return ended
    return _minority(posts) if victims == COLLECTIVE else _apart(posts)


def _minority(posts: tuple[Post, ...]) -> tuple[Post, ...]:
    """All but those at the place where most are."""
    [most, *_] = groups_of(posts)
    return tuple(post for post in posts if post not in most) if 2 * len(most) > len(posts) else ()


def _apart(posts: tuple[Post, ...]) -> tuple[Post, ...]:
    """Few that wait at one socket while all others wait at another. Of a collective that is made of sockets some ranks
    do another part than others: the root of a gather, which is rank 0, or the inner ranks of a tree, which are many."""
    most, *others = groups_of(posts)
    if len(others) != 1 or 3 * len(others[0]) > len(posts) or {post.role for post in posts} != {most[0].role}:
        return ()
    return others[0] if all(post.rank for post in others[0]) else ()


def groups_of(posts: tuple[Post, ...]) -> list[tuple[Post, ...]]:
    """By where they stand, the largest group first."""
    groups: dict[tuple[str, str], list[Post]] = {}
    for post in posts:
        groups.setdefault((post.role, post.words), []).append(post)
    return sorted((tuple(group) for group in groups.values()), key=lambda group: (-len(group), group[0].rank))


def groups_in_words(posts: tuple[Post, ...]) -> tuple[str, ...]:
    """One line a group: `7 of 8 ranks: in all_reduce at train.py:88`, `rank 3: in next(loader) at data.py:41`."""
    groups = groups_of(posts)
    lines = [f"{_who(group, posts)}: {group[0].words}" for group in groups[:MOST_GROUPS]]
    left = sum(len(group) for group in groups[MOST_GROUPS:])
    return (*lines, *([f"{left} more, each elsewhere"] if left else []))


def _who(group: tuple[Post, ...], posts: tuple[Post, ...]) -> str:
    role = group[0].role
    of_role = [post for post in posts if post.role == role]
    if len(group) == 1:
        return f"{group[0].label}{f' on {group[0].host}' if group[0].host else ''}"
    if len(group) == len(of_role):
        return f"all {len(group)} ranks" if role == TRAINER else f"all {counts_in_words({role: len(group)})}"
    if 2 * len(group) > len(of_role):
        return f"{len(group)} of {len(of_role)} ranks" if role == TRAINER else f"{len(group)} of {len(of_role)} {role}s"
    return listed(group)


def listed(posts: tuple[Post, ...]) -> str:
    """Ranks by number, e.g. `ranks 2, 5`."""
    if len(posts) == 1:
        return posts[0].label
    numbers = ", ".join(str(post.rank) for post in posts[:MOST_RANKS])
    more = f" and {len(posts) - MOST_RANKS} more" if len(posts) > MOST_RANKS else ""
    name = "rank" if posts[0].role == TRAINER else posts[0].role
    return f"{name}s {numbers}{more}"


def in_words(posts: tuple[Post, ...]) -> tuple[str, ...]:
    """Who makes the others wait, and who stands where."""
    return tuple(filter(None, (suspicion(posts, find_suspects(posts)), *groups_in_words(posts))))


def suspicion(posts: tuple[Post, ...], suspects: tuple[Post, ...]) -> str:
    """The sentence that names them, or says that nobody can be named."""
    if suspects:
        hosts = sorted({post.host for post in suspects if post.host})
        on = f" on {', '.join(hosts)}" if hosts else ""
        return f"{listed(suspects)}{on} make{'s' * (len(suspects) == 1)} the others wait" if len(posts) > 1 else ""
    hosts = sorted({post.host for post in posts if post.host})
    if len(hosts) > 1 and all(post.kind in (COLLECTIVE, WAITS) for post in posts):
        return f"{NOBODY}: all wait for each other; look at the network between {' and '.join(hosts[:MOST_RANKS])}"
    return NOBODY
