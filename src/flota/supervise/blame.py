"""Who failed, in words."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]

from flota.errors import HANG
from flota.job.report import HUNG, LEFT_EARLY, NOT_STARTED, SHEPHERD_LOST
from flota.job.roles import TRAINER, label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Protocol, TypeVar

    class End(Protocol):
        """A failure as this node found it, or as another has told of it."""

        @property
        def code(self) -> int: ...
        @property
        def at(self) -> float: ...
        @property
        def told(self) -> bool: ...
        @property
        def suffered(self) -> bool: ...
        @property
        def exception(self) -> str: ...
        @property
        def said(self) -> tuple[str, ...]: ...

    Failed = TypeVar("Failed", bound=End)

REFUSED = "ConnectionRefusedError"
# How long after the end of another process one may fall because of it, in seconds. A closed connection is met at the
# next step. Where nothing tells of the end, frameworks give up by a time limit: half an hour, if none is set.
MET_WITHIN, GIVEN_UP_WITHIN = 300.0, 2400.0
OTHER_NAMES = ("SIGCLD", "SIGIOT", "SIGPOLL")  # of SIGCHLD, SIGABRT and SIGIO
NAMES = {
    getattr(_signal, name): name
    for name in dir(_signal)
    if name.startswith("SIG") and "_" not in name and name not in OTHER_NAMES
}
SIGNALS_IN_WORDS = {
    "SIGABRT": "aborted itself",
    "SIGBUS": "bus error",
    "SIGFPE": "arithmetic error",
    "SIGHUP": "hung up",
    "SIGILL": "illegal instruction",
    "SIGINT": "interrupted",
    "SIGKILL": "killed from outside, or by the kernel for memory",
    "SIGPIPE": "its reader went away",
    "SIGQUIT": "quit",
    "SIGSEGV": "segmentation fault",
    "SIGTERM": "terminated from outside",
    "SIGXCPU": "over its CPU limit",
    "SIGXFSZ": "over its file size limit",
}


def abort_line(size: int, ranks: list[int], role: str = TRAINER) -> str:
    listed = ",".join(str(rank) for rank in sorted(ranks))
    return (
        f"ABORT!!! Out of all {size} {plural(role)}, the {role} process with rank=[{listed}] was aborted. "
        "Please check its log."
    )


def signal_name(number: int) -> str:
    return NAMES.get(number, f"signal {number}")


def ending_in_words(code: int, words: str = "") -> str:
    """How it ended, e.g. `exit code 3` or `SIGSEGV (segmentation fault)`; with other words where they are known."""
    name = f"exit code {code}" if code >= 0 else signal_name(-code)
    words = words or SIGNALS_IN_WORDS.get(name, "")
    return f"{name} ({words})" if words else name


def is_hang(code: int, cause: str) -> bool:
    """A worker's own exit code may be the same, but has another cause."""
    return code == HANG and cause in (HUNG, LEFT_EARLY)


def sentence(
    rank: int, cause: str, code: int, ran: float, host: str = "", role: str = TRAINER, ending: str = ""
) -> str:
    """The line that names the culprit; its host where there are several. `ending`: its end in words, where more is
    known than its code.
    """
    who = label(role, rank)
    where = f" on {host}" if host else ""
    if cause == SHEPHERD_LOST:
        return f"flota's own shepherd process{where} ended with {ending_in_words(code)}; its workers were stopped"
    if is_hang(code, cause) and cause == LEFT_EARLY:
        return f"{who}{where} left too early: exit code 0 after {duration_in_words(ran)}, and the others hang"
    if cause == HUNG:
        return f"{f'{who}{where}' if rank >= 0 else 'the job'} hung: found after {duration_in_words(ran)}"
    if cause == NOT_STARTED:
        return f"{who}{where} could not be started"
    end = f"{ending or ending_in_words(code)} after {duration_in_words(ran)}"
    return f"{who}{where} left too early: {end}" if code == 0 else f"{who}{where} failed first: {end}"


def in_order_of_blame(found: Sequence[Failed]) -> list[Failed]:
    """Who is to blame first, then who else failed by itself, then who only suffered, each in order of time.

    Where all that failed have only suffered, one of them has seen a death before we have: then the one to blame is one
    that was told to stop when it had failed already, or that had left too early.
    """
    failed = [one for one in found if not one.told and one.code != 0]
    suspects: list[Failed] = []
    if all(one.suffered for one in failed):
        own = [one for one in found if one.told and not one.suffered]
        suspects = own or [one for one in found if one.code == 0 and _explains(one, failed)]
    first = sorted(suspects, key=lambda one: one.at)[:1]
    return first + sorted(failed, key=lambda one: (one.suffered, one.at))


def _explains(left: End, victims: Sequence[End]) -> bool:
    """Whether one that ended with 0 may have broken the others: they met it soon, or waited for it in vain. But who
    leaves resets connections: those who were refused a new one have asked somebody else for it."""
    from flota.job.texts import TIMED_OUT

    if not victims:
        return True
    first = min(victims, key=lambda one: one.at)
    # Without an exception it was native code that gave up, and what it said is far above the stacks that follow.
    gave_up = not first.exception or any(text in line.lower() for line in first.said for text in TIMED_OUT)
    is_soon = first.at - left.at <= (GIVEN_UP_WITHIN if gave_up else MET_WITHIN)
    return is_soon and not all(one.exception == REFUSED for one in victims)


def numbers_in_words(numbers: Iterable[int]) -> str:
    """Ranks, with ranges folded: `0-3, 7`."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def workers_in_words(workers: Iterable[tuple[str, int]]) -> str:
    """Workers by role, with ranges folded: `rank 3; servers 0-1`."""
    ranks: dict[str, list[int]] = {}
    for role, rank in workers:
        ranks.setdefault(role, []).append(rank)
    return "; ".join(
        f"{plural('rank' if role == TRAINER else role) if len(own) > 1 else ('rank' if role == TRAINER else role)} "
        f"{numbers_in_words(own)}"
        for role, own in ranks.items()
    )


def restart_in_words(attempt: int, limit: int, delay: float) -> str:
    return f"restart {attempt} of {limit}{f' in {delay:g} s' if delay else ''}"


def counts_in_words(sizes: dict[str, int]) -> str:
    """Workers by role, e.g. `2 servers, 4 trainers`."""
    return ", ".join(f"{count} {name if count == 1 else plural(name)}" for name, count in sizes.items() if count)


def plural(name: str) -> str:
    return name if name.endswith("s") else f"{name}s"


def bytes_in_words(number: int) -> str:
    mebibytes = number / (1 << 20)
    if mebibytes >= 1 << 10:
        return f"{mebibytes / (1 << 10):.1f} GiB"
    return f"{mebibytes:.0f} MiB" if mebibytes >= 10 else f"{mebibytes:.1f} MiB"


def duration_in_words(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
