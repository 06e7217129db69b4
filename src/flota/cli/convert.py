"""Converts command-line words to values, with one row per kind of value. Invalid words raise BadValue.

Kinds of values that few command lines have are in rare_values.py.
"""

from __future__ import annotations

from flota import errors
from flota.devices import KINDS, TORCH_NAMES
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
UNITS = {"s": 1, "m": 60, "h": 3600}
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


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
    row = COMMON_KINDS.get(kind)
    if row is None:
        from flota.cli.rare_values import find_kind

        row = find_kind(kind, flag)
    read, expected, example = row
    try:
        return read(word)
    except ValueError:
        raise errors.BadValue(flag, word, expected, example.replace("FLAG", flag)) from None


def is_boolean(word: str) -> bool:
    return word.lower() in TRUE + FALSE


def require(value: Value, *, fits: bool) -> Value:
    if not fits:
        raise ValueError
    return value


def _boolean(word: str) -> bool:
    return require(word.lower() in TRUE, fits=is_boolean(word))


def read_number(word: str, least: int = 0, most: float = float("inf")) -> int:
    """A number written in decimal digits only."""
    return require(int(word), fits=is_number(word) and least <= int(word) <= most)


def is_number(word: str) -> bool:
    """Whether a word has only the digits 0 to 9. Python reads those of other scripts as well, such as U+0663 for 3."""
    return word.isascii() and word.isdecimal()


def _integer(word: str) -> int:
    return require(int(word), fits=is_number(word.removeprefix("-")))


def _workers(word: str) -> int | str:
    return word if word in COUNTED else read_number(word, 1, MOST_WORKERS)


def read_duration(word: str) -> float:
    number, unit = (word[:-1], UNITS[word[-1]]) if word[-1:] in UNITS else (word, 1)
    seconds = float(number) * unit
    return require(seconds, fits=word.isascii() and 0 <= seconds < float("inf"))


def _size(word: str) -> int:
    """`64G`, `64GB` and `64GiB` are the same."""
    number = word.rstrip("BIKMGTbikmgt")
    unit, rest = word[len(number) :][:1].upper(), word[len(number) + 1 :].upper()
    size = read_number(number) * SIZES.get(unit, 1)
    return require(size, fits=size >= 1024 and unit in ("", *SIZES) and rest in ("", "B", "IB"))


def _nodes(word: str) -> tuple[int, int]:
    low, colon, high = word.partition(":")
    most = read_number(high if colon else low, 1)
    return read_number(low, 1, most), most


def _modules(word: str) -> tuple[str, ...]:
    names = tuple(name for name in word.split(",") if name)
    return require(names, fits=bool(names) and all(part.isidentifier() for name in names for part in name.split(".")))


def known_signals(names: Iterable[str]) -> tuple[str, ...]:
    """The names of signals that a process can handle. torchrun only warns about others."""
    return tuple(name for name in map(str.strip, names) if is_signal(name))


def is_signal(name: str) -> bool:
    import _signal  # type: ignore[import-not-found]

    # SIG_IGN, SIG_BLOCK and similar names are not signals.
    return name.startswith("SIG") and "_" not in name and hasattr(_signal, name) and name not in UNCATCHABLE


BOOLEAN = ValueKind(_boolean, "true or false", "FLAG=true")
COMMON_KINDS = {
    "text": ValueKind(str, "", ""),
    "help": ValueKind(str, "", ""),
    "switch": BOOLEAN,
    "bool": BOOLEAN,
    "int": ValueKind(_integer, "a whole number", "FLAG 1"),
    "count": ValueKind(read_number, "a whole number, 0 or more", "FLAG 3"),
    "workers": ValueKind(_workers, f"a number from 1 to {MOST_WORKERS}, or gpu, cpu, auto", "FLAG 8"),
    "duration": ValueKind(read_duration, "a duration", "FLAG 30s, 2m or 1h"),
    "size": ValueKind(_size, "a size of 1K or more, in K, M, G or T", "FLAG 64G, or FLAG 64GB"),
    "port": ValueKind(lambda word: read_number(word, 1, LAST_PORT), "a port from 1 to 65535", "FLAG 6070"),
    "nodes": ValueKind(_nodes, "a number or a range of nodes", "FLAG 4, or FLAG 2:4 to let the job shrink and grow"),
    "level": ValueKind(
        lambda word: require(word.upper(), fits=word.upper() in LEVELS), f"one of {', '.join(LEVELS)}", "FLAG INFO"
    ),
    "modules": ValueKind(_modules, "module names, or auto", "FLAG torch,numpy"),
}
