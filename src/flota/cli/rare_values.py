"""Converts words of kinds that few command lines have: see convert.py."""

from __future__ import annotations

from functools import partial

from flota import errors
from flota.cli.convert import (
    LAST_PORT,
    MOST_WORKERS,
    ValueKind,
    is_number,
    is_signal,
    known_signals,
    read_duration,
    read_number,
    require,
)
from flota.frameworks import REGISTRY as FRAMEWORKS
from flota.frameworks import load
from flota.job.spec import LEARNT

# Already in use: child processes and job control, Ctrl-C, errors of the process itself.
RESERVED_SIGNALS = ("SIGCHLD", "SIGCONT", "SIGTSTP", "SIGINT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")


def find_kind(kind: str, flag: str) -> ValueKind:
    """`flag`: for errors about one of several words."""
    read = {"reasons": _reasons, "signal": _signal_name, "faults": _faults}.get(kind)
    return ValueKind(partial(read, flag), "", "") if read else RARE_KINDS[kind]


def _hang_timeout(word: str) -> float:
    seconds = LEARNT if word == "auto" else read_duration(word)
    return require(seconds, fits=seconds == LEARNT or seconds >= 1)


def _factor(word: str) -> float:
    factor = float(word.removesuffix("x"))
    return require(factor, fits=word.isascii() and 1 < factor < float("inf"))


def _limit(word: str) -> float:
    seconds = read_duration(word)
    return require(seconds, fits=seconds > 0)


def _env(word: str) -> tuple[tuple[str, str], ...]:
    name, equals, value = word.partition("=")
    return require(((name, value),), fits=bool(equals and name) and "\0" not in word)


def _ports(word: str) -> tuple[int, int]:
    low, colon, high = word.partition(":")
    last = read_number(high, 1, LAST_PORT) if colon else LAST_PORT
    return read_number(low, 1, last), last


def _host(word: str) -> str:
    """A host name or an address, judged by its characters only."""
    return require(word, fits=bool(word) and all(letter.isalnum() or letter in ".-_:" for letter in word))


def _listen(word: str) -> tuple[str, int] | None:
    from flota.cli.listen_address import read_address

    return read_address(word)


def _frameworks(word: str) -> tuple[str, ...]:
    shorts = {short: name for name in FRAMEWORKS if (short := load(name).short)}
    names = tuple(shorts.get(name, name) for name in word.split(","))
    return require(names, fits=set(names) <= set(FRAMEWORKS))


def _rank_list(word: str) -> tuple[int, ...]:
    return tuple(read_number(part) for part in word.split(","))


def _streams(word: str) -> int | tuple[tuple[int, int], ...]:
    """torch's masks: one number for all ranks, or RANK:NUMBER pairs."""
    if word in ("0", "1", "2", "3"):
        return int(word)
    pairs = [part.partition(":") for part in word.split(",")]
    return tuple((read_number(rank), read_number(mask, 0, 3)) for rank, _, mask in pairs)


def _filters(word: str) -> tuple[str, ...]:
    """Comma-separated words; two commas mean one literal comma."""
    return tuple(part.replace("\0", ",") for part in word.replace(",,", "\0").split(",") if part)


def _signal_name(flag: str, word: str) -> str:
    """A signal's name, with or without SIG, as in Slurm."""
    name = f"SIG{word.strip().upper().removeprefix('SIG')}"
    if not is_signal(name):
        raise errors.BadValue(flag, word, "the name of a signal", f"{flag} SIGUSR1")
    import _signal  # type: ignore[import-not-found]

    # Compare numbers: some signals have two names.
    if getattr(_signal, name) in {getattr(_signal, taken) for taken in RESERVED_SIGNALS}:
        raise errors.BadValue(flag, word, "a signal that is not reserved", f"{flag} SIGUSR1")
    return name


def _reasons(flag: str, word: str) -> tuple[str, ...]:
    """Exit codes, signals, exceptions (names with capitals) and causes."""
    import _signal

    from flota.job.causes import ALL

    names = tuple(part.strip() for part in word.split(","))
    for name in names:
        known = name in ALL or (is_number(name) and 0 < int(name) < 256) or hasattr(_signal, name)
        if not known and (name.startswith("SIG") or name == name.lower()):
            raise errors.BadValue(
                flag, name, f"exit codes, signals, exceptions or causes ({', '.join(ALL)})", f"{flag} SIGKILL"
            )
    return names


def _roles(word: str) -> tuple[tuple[str, int], ...]:
    pairs = [part.partition("=") for part in word.split(",")]
    counts = tuple((name.strip(), read_number(count.strip())) for name, _, count in pairs)
    return require(counts, fits=all(name for name, _ in counts))


def _faults(flag: str, word: str) -> object:
    from flota.chaos.faults import BadFault, parse_faults

    try:
        return parse_faults(word, read_duration)
    except BadFault as error:
        raise errors.BadValue(flag, error.part, error.expected, f"{flag} kill=60s,node=10m,seed=7") from None


RARE_KINDS = {
    "command": ValueKind(
        lambda word: require(word, fits=bool(word.strip()) and "\0" not in word), "a shell command", "FLAG ./notify.sh"
    ),
    "positive": ValueKind(
        lambda word: read_number(word, 1, MOST_WORKERS), f"a number from 1 to {MOST_WORKERS}", "FLAG 1"
    ),
    "threads": ValueKind(
        lambda word: word if word == "auto" else read_number(word, 1), "a positive whole number, or auto", "FLAG 4"
    ),
    "factor": ValueKind(_factor, "a factor above 1", "FLAG 1.5x"),
    "limit": ValueKind(_limit, "a duration above 0", "FLAG 8h"),
    "hang": ValueKind(_hang_timeout, "a duration of 1s or more, or auto", "FLAG 10m, or FLAG auto"),
    "ports": ValueKind(_ports, "a range of ports from 1 to 65535", "FLAG 35100:64000"),
    "name": ValueKind(lambda word: require(word, fits=word.split() == [word]), "a name without spaces", "FLAG pod16"),
    "host": ValueKind(_host, "a host", "FLAG 127.0.0.1"),
    "hosts": ValueKind(
        lambda word: tuple(_host(part.strip()) for part in word.split(",")),
        "hosts separated by commas",
        "FLAG 10.0.0.1,10.0.0.2",
    ),
    "listen": ValueKind(_listen, "an address and a port", "FLAG 127.0.0.1:8080"),
    "frameworks": ValueKind(_frameworks, f"one or more of {', '.join(FRAMEWORKS)}", "FLAG torch"),
    "env": ValueKind(_env, "NAME=VALUE", "FLAG NCCL_DEBUG=INFO"),
    "paths": ValueKind(lambda word: require((word,), fits=bool(word)), "a path", "FLAG data/vocab.txt"),
    "list": ValueKind(_rank_list, "ranks", "FLAG 0,3"),
    "ranks": ValueKind(
        lambda word: word if word in ("none", "all") else _rank_list(word), "none, all, or a list of ranks", "FLAG 0,3"
    ),
    "streams": ValueKind(_streams, "0, 1, 2, 3 or RANK:N pairs", "FLAG 0:3,1:2"),
    "filters": ValueKind(_filters, "", ""),
    "signals": ValueKind(
        lambda word: require(
            tuple(name.strip() for name in word.split(",")), fits=bool(known_signals(word.split(",")))
        ),
        "names of signals",
        "FLAG SIGTERM,SIGINT,SIGUSR1",
    ),
    "roles": ValueKind(_roles, "roles and their counts", "FLAG trainer=4,evaluator=1"),
}
