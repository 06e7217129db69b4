"""Who failed, in words."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]

from flota.job.report import NOT_STARTED, SHEPHERD_LOST
from flota.job.roles import TRAINER, label

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


def ending_in_words(code: int) -> str:
    """How it ended, e.g. `exit code 3` or `SIGSEGV (segmentation fault)`."""
    if code >= 0:
        return f"exit code {code}"
    name = signal_name(-code)
    words = SIGNALS_IN_WORDS.get(name)
    return f"{name} ({words})" if words else name


def sentence(rank: int, cause: str, code: int, ran: float, host: str = "", role: str = TRAINER) -> str:
    """The line that names the culprit; its host where there are several."""
    who = label(role, rank)
    where = f" on {host}" if host else ""
    if cause == SHEPHERD_LOST:
        return f"flota's own shepherd process{where} ended with {ending_in_words(code)}; its workers were stopped"
    if cause == NOT_STARTED:
        return f"{who}{where} could not be started"
    return f"{who}{where} failed first: {ending_in_words(code)} after {duration_in_words(ran)}"


def counts_in_words(sizes: dict[str, int]) -> str:
    """Workers by role, e.g. `2 servers, 4 trainers`."""
    return ", ".join(f"{count} {name if count == 1 else plural(name)}" for name, count in sizes.items() if count)


def plural(name: str) -> str:
    return name if name.endswith("s") else f"{name}s"


def duration_in_words(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
