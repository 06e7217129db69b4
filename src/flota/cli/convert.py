"""Converts command-line words to values, with one row per kind of value. Invalid words raise BadValue."""

from __future__ import annotations

from flota import errors
from flota.devices import KINDS, TORCH_NAMES
from flota.frameworks import REGISTRY as FRAMEWORKS
from flota.frameworks import load
from flota.job.spec import LEARNT
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    Value = TypeVar("Value")

TRUE = ("y", "yes", "t", "true", "on", "1")
FALSE = ("n", "no", "f", "false", "off", "0")
LEVELS = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "NOTSET")
MOST_WORKERS = 10_000  # each needs its own port
LAST_PORT = 65535
# --nproc_per_node: one worker for each of these
COUNTED = {"auto", "cpu", *(kind.name for kind in KINDS), *TORCH_NAMES.values()}
UNCATCHABLE = ("SIGKILL", "SIGSTOP")
# Already in use: child processes and job control, Ctrl-C, errors of the process itself.
RESERVED_SIGNALS = ("SIGCHLD", "SIGCONT", "SIGTSTP", "SIGINT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")
UNITS = {"s": 1, "m": 60, "h": 3600}
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class ValueKind(NamedTuple):
    """`read` converts a word or raises ValueError; `expected` and `example` are for the error message."""

    read: Callable[[str], object]
    expected: str
    example: str  # FLAG is replaced by the flag


def convert(flag: str, kind: str, word: str) -> object:
    """Convert a word given to a flag of this kind. Raises BadValue."""
    if kind.startswith("choice:"):
        choices = kind[7:].split(",")
        if word not in choices:
            raise errors.BadValue(flag, word, f"one of {', '.join(choices)}", f"{flag} {choices[0]}")
        return word
    if kind == "reasons":
        return _reasons(flag, word)
    if kind == "signal":
        return _signal_name(flag, word)
    read, expected, example = VALUE_KINDS[kind]
    try:
        return read(word)
    except ValueError:
        raise errors.BadValue(flag, word, expected, example.replace("FLAG", flag)) from None


def is_boolean(word: str) -> bool:
    return word.lower() in TRUE + FALSE


def _require(value: Value, *, fits: bool) -> Value:
    if not fits:
        raise ValueError
    return value


def _boolean(word: str) -> bool:
    return _require(word.lower() in TRUE, fits=is_boolean(word))


def _number(word: str, least: int = 0, most: float = float("inf")) -> int:
    """A number written in decimal digits only."""
    return _require(int(word), fits=word.isdecimal() and least <= int(word) <= most)


def _workers(word: str) -> int | str:
    return word if word in COUNTED else _number(word, 1, MOST_WORKERS)


def _duration(word: str) -> float:
    number, unit = (word[:-1], UNITS[word[-1]]) if word[-1:] in UNITS else (word, 1)
    seconds = float(number) * unit
    return _require(seconds, fits=0 <= seconds < float("inf"))


def _hang_timeout(word: str) -> float:
    seconds = LEARNT if word == "auto" else _duration(word)
    return _require(seconds, fits=seconds == LEARNT or seconds >= 1)


def _limit(word: str) -> float:
    seconds = _duration(word)
    return _require(seconds, fits=seconds > 0)


def _size(word: str) -> int:
    number, unit = (word[:-1], SIZES[word[-1].upper()]) if word[-1:].upper() in SIZES and word else (word, 1)
    size = _number(number) * unit
    return _require(size, fits=size >= 1024)


def _ports(word: str) -> tuple[int, int]:
    low, colon, high = word.partition(":")
    last = _number(high, 1, LAST_PORT) if colon else LAST_PORT
    return _number(low, 1, last), last


def _nodes(word: str) -> tuple[int, int]:
    low, colon, high = word.partition(":")
    most = _number(high if colon else low, 1)
    return _number(low, 1, most), most


def _host(word: str) -> str:
    """A host name or an address, judged by its characters only."""
    return _require(word, fits=bool(word) and all(letter.isalnum() or letter in ".-_:" for letter in word))


def _listen(word: str) -> tuple[str, int] | None:
    from flota.cli.listen_address import read_address

    return read_address(word)


def _frameworks(word: str) -> tuple[str, ...]:
    shorts = {short: name for name in FRAMEWORKS if (short := load(name).short)}
    names = tuple(shorts.get(name, name) for name in word.split(","))
    return _require(names, fits=set(names) <= set(FRAMEWORKS))


def _env(word: str) -> tuple[tuple[str, str], ...]:
    name, equals, value = word.partition("=")
    return _require(((name, value),), fits=bool(equals and name) and "\0" not in word)


def _rank_list(word: str) -> tuple[int, ...]:
    return tuple(_number(part) for part in word.split(","))


def _streams(word: str) -> int | tuple[tuple[int, int], ...]:
    """torch's masks: one number for all ranks, or RANK:NUMBER pairs."""
    if word in ("0", "1", "2", "3"):
        return int(word)
    pairs = [part.partition(":") for part in word.split(",")]
    return tuple((_number(rank), _number(mask, 0, 3)) for rank, _, mask in pairs)


def _modules(word: str) -> tuple[str, ...]:
    names = tuple(name for name in word.split(",") if name)
    return _require(names, fits=bool(names) and all(part.isidentifier() for name in names for part in name.split(".")))


def _filters(word: str) -> tuple[str, ...]:
    """Comma-separated words; two commas mean one literal comma."""
    return tuple(part.replace("\0", ",") for part in word.replace(",,", "\0").split(",") if part)


def _signal_name(flag: str, word: str) -> str:
    """A signal's name, with or without SIG, as in Slurm."""
    name = f"SIG{word.strip().upper().removeprefix('SIG')}"
    if not _is_signal(name):
        raise errors.BadValue(flag, word, "the name of a signal", f"{flag} SIGUSR1")
    import _signal  # type: ignore[import-not-found]

    # Compare numbers: some signals have two names.
    if getattr(_signal, name) in {getattr(_signal, taken) for taken in RESERVED_SIGNALS}:
        raise errors.BadValue(flag, word, "a signal that is not reserved", f"{flag} SIGUSR1")
    return name


def known_signals(names: Iterable[str]) -> tuple[str, ...]:
    """The names of signals that a process can handle. torchrun only warns about others."""
    return tuple(name for name in map(str.strip, names) if _is_signal(name))


def _is_signal(name: str) -> bool:
    import _signal

    # SIG_IGN, SIG_BLOCK and similar names are not signals.
    return name.startswith("SIG") and "_" not in name and hasattr(_signal, name) and name not in UNCATCHABLE


def _reasons(flag: str, word: str) -> tuple[str, ...]:
    """Exit codes, signals, exceptions (names with capitals) and causes."""
    import _signal

    from flota.job.causes import ALL

    names = tuple(part.strip() for part in word.split(","))
    for name in names:
        known = name in ALL or (name.isdecimal() and 0 < int(name) < 256) or hasattr(_signal, name)
        if not known and (name.startswith("SIG") or name == name.lower()):
            raise errors.BadValue(
                flag, name, f"exit codes, signals, exceptions or causes ({', '.join(ALL)})", f"{flag} SIGKILL"
            )
    return names


def _roles(word: str) -> tuple[tuple[str, int], ...]:
    pairs = [part.partition("=") for part in word.split(",")]
    counts = tuple((name.strip(), _number(count.strip())) for name, _, count in pairs)
    return _require(counts, fits=all(name for name, _ in counts))


BOOLEAN = ValueKind(_boolean, "true or false", "FLAG=true")
VALUE_KINDS = {
    "text": ValueKind(str, "", ""),
    "help": ValueKind(str, "", ""),
    "command": ValueKind(
        lambda word: _require(word, fits=bool(word.strip()) and "\0" not in word), "a shell command", "FLAG ./notify.sh"
    ),
    "switch": BOOLEAN,
    "bool": BOOLEAN,
    "int": ValueKind(int, "a whole number", "FLAG 1"),
    "count": ValueKind(_number, "a whole number, 0 or more", "FLAG 3"),
    "positive": ValueKind(lambda word: _number(word, 1, MOST_WORKERS), f"a number from 1 to {MOST_WORKERS}", "FLAG 1"),
    "workers": ValueKind(_workers, f"a number from 1 to {MOST_WORKERS}, or gpu, cpu, auto", "FLAG 8"),
    "threads": ValueKind(
        lambda word: word if word == "auto" else _number(word, 1), "a positive whole number, or auto", "FLAG 4"
    ),
    "duration": ValueKind(_duration, "a duration", "FLAG 30s, 2m or 1h"),
    "limit": ValueKind(_limit, "a duration above 0", "FLAG 8h"),
    "hang": ValueKind(_hang_timeout, "a duration of 1s or more, or auto", "FLAG 10m, or FLAG auto"),
    "size": ValueKind(_size, "a size of 1K or more", "FLAG 100M"),
    "port": ValueKind(lambda word: _number(word, 1, LAST_PORT), "a port from 1 to 65535", "FLAG 6070"),
    "ports": ValueKind(_ports, "a range of ports from 1 to 65535", "FLAG 35100:64000"),
    "nodes": ValueKind(_nodes, "a number or a range of nodes", "FLAG 4, or FLAG 2:4 to let the job shrink and grow"),
    "name": ValueKind(lambda word: _require(word, fits=word.split() == [word]), "a name without spaces", "FLAG pod16"),
    "host": ValueKind(_host, "a host", "FLAG 127.0.0.1"),
    "hosts": ValueKind(
        lambda word: tuple(_host(part.strip()) for part in word.split(",")),
        "hosts separated by commas",
        "FLAG 10.0.0.1,10.0.0.2",
    ),
    "listen": ValueKind(_listen, "an address and a port", "FLAG 127.0.0.1:8080"),
    "level": ValueKind(
        lambda word: _require(word.upper(), fits=word.upper() in LEVELS), f"one of {', '.join(LEVELS)}", "FLAG INFO"
    ),
    "frameworks": ValueKind(_frameworks, f"one or more of {', '.join(FRAMEWORKS)}", "FLAG torch"),
    "env": ValueKind(_env, "NAME=VALUE", "FLAG NCCL_DEBUG=INFO"),
    "paths": ValueKind(lambda word: _require((word,), fits=bool(word)), "a path", "FLAG data/vocab.txt"),
    "list": ValueKind(_rank_list, "ranks", "FLAG 0,3"),
    "ranks": ValueKind(
        lambda word: word if word in ("none", "all") else _rank_list(word), "none, all, or a list of ranks", "FLAG 0,3"
    ),
    "streams": ValueKind(_streams, "0, 1, 2, 3 or RANK:N pairs", "FLAG 0:3,1:2"),
    "filters": ValueKind(_filters, "", ""),
    "modules": ValueKind(_modules, "module names, or auto", "FLAG torch,numpy"),
    "signals": ValueKind(
        lambda word: _require(
            tuple(name.strip() for name in word.split(",")), fits=bool(known_signals(word.split(",")))
        ),
        "names of signals",
        "FLAG SIGTERM,SIGINT,SIGUSR1",
    ),
    "roles": ValueKind(_roles, "roles and their counts", "FLAG trainer=4,evaluator=1"),
}
