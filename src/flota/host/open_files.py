"""The limit of open files. The master of thousands of nodes needs more than a shell gives; workers get the shell's
limit back, because some programs walk through every number below it.
"""

from __future__ import annotations

_given: list[tuple[int, int]] = []  # the limits before they were raised


def raise_open_files(wanted: int) -> None:
    """Raise the limit, as far as the system allows."""
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
