"""How many files this process may have open. The master of thousands of nodes needs more than a shell gives; workers
get what the shell gave, because some look at every number below the limit.
"""

from __future__ import annotations

_given: list[tuple[int, int]] = []  # the limits before they were raised


def raise_open_files(wanted: int) -> None:
    """As far as the system lets us."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        _given.append((soft, hard))


def given_open_files() -> tuple[int, int] | None:
    """The limits before they were raised; None when they were not."""
    return _given[0] if _given else None


def restore_open_files() -> None:
    if _given:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, _given[0])
