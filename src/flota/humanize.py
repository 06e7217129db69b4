"""Formats durations, sizes, counts, ranks and signals for people. Pure."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
from _collections_abc import Iterable

from flota.job.roles import HETER, TRAINER, label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.job.spec import RestartPolicy

OTHER_NAMES = ("SIGCLD", "SIGIOT", "SIGPOLL")  # of SIGCHLD, SIGABRT and SIGIO
NAMES = {
    getattr(_signal, name): name
    for name in dir(_signal)
    if name.startswith("SIG") and "_" not in name and name not in OTHER_NAMES
}
NOUNS = ("er", "or", "chief", "rank", "restart")  # endings of words that can be counted
SIGNALS_IN_WORDS = {
    "SIGABRT": "aborted",
    "SIGBUS": "bus error",
    "SIGFPE": "arithmetic error",
    "SIGHUP": "hangup",
    "SIGILL": "illegal instruction",
    "SIGINT": "interrupted",
    "SIGKILL": "killed by another process or the OOM killer",
    "SIGPIPE": "broken pipe",
    "SIGQUIT": "quit",
    "SIGSEGV": "segmentation fault",
    "SIGTERM": "terminated by another process",
    "SIGXCPU": "CPU time limit exceeded",
    "SIGXFSZ": "file size limit exceeded",
}


def signal_name(number: int) -> str:
    return NAMES.get(number, f"signal {number}")


def ending_in_words(code: int, words: str = "") -> str:
    """For example `exit code 3` or `SIGSEGV (segmentation fault)`. `words` replaces the text in parentheses."""
    name = f"exit code {code}" if code >= 0 else signal_name(-code)
    words = words or SIGNALS_IN_WORDS.get(name, "")
    return f"{name} ({words})" if words else name


def numbers_in_words(numbers: Iterable[int]) -> str:
    """Ranks as ranges: `0-3, 7`."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def workers_in_words(workers: Iterable[tuple[str, int]]) -> str:
    """Workers by role, ranks as ranges: `rank 3; servers 0-1`."""
    ranks: dict[str, list[int]] = {}
    for role, rank in workers:
        ranks.setdefault(role, []).append(rank)
    return "; ".join(
        label(role, own[0])
        if len(own) == 1
        else f"{noun('rank' if role == TRAINER else role, 2)} {numbers_in_words(own)}"
        for role, own in ranks.items()
    )


def restart_in_words(attempt: int, policy: RestartPolicy, delay: float) -> str:
    return f"restarting{f' in {delay:g} s' if delay else ''} ({attempt - policy.earlier} of {policy.limit})"


def counts_in_words(sizes: dict[str, int]) -> str:
    """Workers by role, e.g. `2 servers, 4 trainers`."""
    return ", ".join(f"{count} {noun(name, count)}" for name, count in sizes.items() if count)


def noun(name: str, count: int) -> str:
    """`server` or `servers`. Role names that are not words for a worker get one: `2 data workers`."""
    if name.endswith(("ers", "ors")):
        return name
    singular = name if name.endswith(NOUNS) and name != HETER else f"{name} worker"
    return singular if count == 1 else f"{singular}s"


def bytes_in_words(number: int) -> str:
    mebibytes = number / (1 << 20)
    if mebibytes >= 1 << 10:
        return f"{mebibytes / (1 << 10):.1f} GiB"
    return f"{mebibytes:.0f} MiB" if mebibytes >= 10 else f"{mebibytes:.1f} MiB"


def duration_in_words(seconds: float) -> str:
    """For example `11.8 s`, `3m12s`, `2h05m`."""
    return f"{seconds:.1f} s" if seconds < 60 else clock_in_words(seconds)


def limit_in_words(seconds: float) -> str:
    """A duration as users write it in flags: `8h`, `90m`, `2.5s`."""
    unit, size = next(((unit, size) for unit, size in (("h", 3600), ("m", 60)) if seconds % size == 0), ("s", 1))
    return f"{seconds / size:g}{unit}"


def clock_in_words(seconds: float) -> str:
    """A time since the job began, for example `0m40s`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"


def list_in_words(names: list[str], most: int = 8) -> str:
    """At most `most` names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def were_in_words(names: list[str]) -> str:
    """The start of a sentence, e.g. `gpu01, gpu02 were`."""
    return f"{list_in_words(names)} {'were' if len(names) > 1 else 'was'}"
