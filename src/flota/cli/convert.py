"""Words to values, one function a kind. A word that does not fit raises BadValue with the word in it."""

from __future__ import annotations

from flota.errors import BadValue
from flota.job.spec import LEARNT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

TRUE = ("y", "yes", "t", "true", "on", "1")
FALSE = ("n", "no", "f", "false", "off", "0")
LEVELS = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "NOTSET")
MOST_WORKERS = 10_000  # each needs a port of its own
UNCATCHABLE = ("SIGKILL", "SIGSTOP")
# They have a meaning of their own: children and job control, a person's Ctrl-C, errors of the process itself.
TAKEN = ("SIGCHLD", "SIGCONT", "SIGTSTP", "SIGINT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL")
UNITS = {"s": 1, "m": 60, "h": 3600}
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def convert(flag: str, kind: str, word: str) -> object:
    """The value of a word given to a flag, whose kind says what fits."""
    if kind.startswith("choice:"):
        return _choice(flag, word, kind[7:].split(","))
    return CONVERTERS[kind](flag, word)


def is_boolean(word: str) -> bool:
    return word.lower() in TRUE + FALSE


def _text(_flag: str, word: str) -> str:
    return word


def _boolean(flag: str, word: str) -> bool:
    if not is_boolean(word):
        raise BadValue(flag, word, "true or false", f"{flag}=true")
    return word.lower() in TRUE


def _choice(flag: str, word: str, choices: list[str]) -> str:
    if word not in choices:
        raise BadValue(flag, word, f"one of {', '.join(choices)}", f"{flag} {choices[0]}")
    return word


def _integer(flag: str, word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise BadValue(flag, word, "a whole number", f"{flag} 1") from None


def _count(flag: str, word: str) -> int:
    if not word.isdecimal():
        raise BadValue(flag, word, "a whole number of 0 or more", f"{flag} 3")
    return int(word)


def _positive(flag: str, word: str) -> int:
    if not word.isdecimal() or not 1 <= int(word) <= MOST_WORKERS:
        raise BadValue(flag, word, f"a number of 1 to {MOST_WORKERS}", f"{flag} 1")
    return int(word)


def _workers(flag: str, word: str) -> int | str:
    if word.isdecimal() and 0 < int(word) <= MOST_WORKERS:
        return int(word)
    if word.isalpha():
        return word
    raise BadValue(flag, word, f"a number of 1 to {MOST_WORKERS}, or gpu, cpu, auto", f"{flag} 8")


def _threads(flag: str, word: str) -> int | str:
    if word == "auto":
        return word
    if word.isdecimal() and int(word) > 0:
        return int(word)
    raise BadValue(flag, word, "a number of 1 or more, or auto", f"{flag} 4")


def _duration(flag: str, word: str) -> float:
    number, unit = (word[:-1], UNITS[word[-1]]) if word[-1:] in UNITS else (word, 1)
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise BadValue(flag, word, "a duration", f"{flag} 30s, 2m or 1h")
    return seconds


def _hang_timeout(flag: str, word: str) -> float:
    if word == "auto":
        return LEARNT
    try:
        seconds = _duration(flag, word)
    except BadValue:
        seconds = 0.0
    if seconds < 1:
        raise BadValue(flag, word, "a duration of 1s or more, or auto", f"{flag} 10m, or {flag} auto")
    return seconds


def _size(flag: str, word: str) -> int:
    number, unit = (word[:-1], SIZES[word[-1].upper()]) if word[-1:].upper() in SIZES and word else (word, 1)
    if not number.isdecimal() or int(number) * unit < 1024:
        raise BadValue(flag, word, "a size of 1K or more", f"{flag} 100M")
    return int(number) * unit


def _port(flag: str, word: str) -> int:
    if not word.isdecimal() or not 1 <= int(word) <= 65535:
        raise BadValue(flag, word, "a port from 1 to 65535", f"{flag} 6070")
    return int(word)


def _ports(flag: str, word: str) -> tuple[int, int]:
    low, colon, high = word.partition(":")
    if low.isdecimal() and (high.isdecimal() or not colon) and 1 <= int(low) <= int(high or 65535) <= 65535:
        return int(low), int(high or 65535)
    raise BadValue(flag, word, "a range of ports from 1 to 65535", f"{flag} 35100:64000")


def _nodes(flag: str, word: str) -> tuple[int, int]:
    low, colon, high = word.partition(":")
    if low.isdecimal() and (high.isdecimal() or not colon) and 1 <= int(low) <= int(high or low):
        return int(low), int(high or low)
    raise BadValue(
        flag, word, "a number or a range of nodes", f"{flag} 4, or {flag} 2:4 to let the job shrink and grow"
    )


def _name(flag: str, word: str) -> str:
    if not word or word.split() != [word]:
        raise BadValue(flag, word, "a name without spaces", f"{flag} pod16")
    return word


def _host(flag: str, word: str) -> str:
    if not _is_host(word):
        raise BadValue(flag, word, "a host", f"{flag} 127.0.0.1")
    return word


def _hosts(flag: str, word: str) -> tuple[str, ...]:
    hosts = tuple(part.strip() for part in word.split(","))
    if not all(_is_host(host) for host in hosts):
        raise BadValue(flag, word, "hosts with commas between them", f"{flag} 10.0.0.1,10.0.0.2")
    return hosts


def _is_host(word: str) -> bool:
    """A name or an address, as far as can be told from its letters."""
    return bool(word) and all(letter.isalnum() or letter in ".-_:" for letter in word)


def _level(flag: str, word: str) -> str:
    if word.upper() not in LEVELS:
        raise BadValue(flag, word, f"one of {', '.join(LEVELS)}", f"{flag} INFO")
    return word.upper()


def _frameworks(flag: str, word: str) -> tuple[str, ...]:
    from flota.frameworks import REGISTRY, load

    shorts = {short: name for name in REGISTRY if (short := load(name).short)}
    names = tuple(shorts.get(name, name) for name in word.split(","))
    if not set(names) <= set(REGISTRY):
        raise BadValue(flag, word, f"names among {', '.join(REGISTRY)}", f"{flag} torch")
    return names


def _env(flag: str, word: str) -> tuple[tuple[str, str], ...]:
    name, equals, value = word.partition("=")
    if not equals or not name or "\0" in word:
        raise BadValue(flag, word, "NAME=VALUE", f"{flag} NCCL_DEBUG=INFO")
    return ((name, value),)


def _rank_list(flag: str, word: str) -> tuple[int, ...]:
    parts = word.split(",")
    if not all(part.isdecimal() for part in parts):
        raise BadValue(flag, word, "ranks", f"{flag} 0,3")
    return tuple(int(part) for part in parts)


def _ranks(flag: str, word: str) -> str | tuple[int, ...]:
    if word in ("none", "all"):
        return word
    if not word.replace(",", "").isdecimal():
        raise BadValue(flag, word, "none, all or ranks", f"{flag} 0,3")
    return _rank_list(flag, word)


def _streams(flag: str, word: str) -> int | tuple[tuple[int, int], ...]:
    """torch's masks: one number for all ranks, or RANK:NUMBER pairs."""
    if word in ("0", "1", "2", "3"):
        return int(word)
    pairs = [part.partition(":") for part in word.split(",")]
    if not all(rank.isdecimal() and mask in ("0", "1", "2", "3") for rank, _, mask in pairs):
        raise BadValue(flag, word, "0, 1, 2, 3 or a map from ranks to them", f"{flag} 0:3,1:2")
    return tuple((int(rank), int(mask)) for rank, _, mask in pairs)


def _modules(flag: str, word: str) -> tuple[str, ...]:
    names = tuple(name for name in word.split(",") if name)
    if not names or not all(part.isidentifier() for name in names for part in name.split(".")):
        raise BadValue(flag, word, "module names, or auto", f"{flag} torch,numpy")
    return names


def _filters(_flag: str, word: str) -> tuple[str, ...]:
    """Comma-separated words; a doubled comma stands for one."""
    return tuple(part.replace("\0", ",") for part in word.replace(",,", "\0").split(",") if part)


def _signals(flag: str, word: str) -> str:
    if not all(_is_signal(name) for name in word.split(",")):
        raise BadValue(flag, word, "names of signals", f"{flag} SIGTERM,SIGINT,SIGUSR1")
    return word


def _signal_name(flag: str, word: str) -> str:
    """One, also without the SIG before it, as Slurm has it."""
    name = f"SIG{word.strip().upper().removeprefix('SIG')}"
    if not _is_signal(name):
        raise BadValue(flag, word, "the name of a signal", f"{flag} SIGUSR1")
    import _signal  # type: ignore[import-not-found]

    # By number: some have two names.
    if getattr(_signal, name) in {getattr(_signal, taken) for taken in TAKEN}:
        raise BadValue(flag, word, "a signal without another meaning", f"{flag} SIGUSR1")
    return name


def _is_signal(name: str) -> bool:
    import _signal

    # SIG_IGN, SIG_BLOCK and their like are no signals.
    return name.startswith("SIG") and "_" not in name and hasattr(_signal, name) and name not in UNCATCHABLE


def _reasons(flag: str, word: str) -> tuple[str, ...]:
    """Exit codes, names of signals, of exceptions (which have capitals) and of causes."""
    import _signal

    from flota.job.causes import ALL

    names = tuple(part.strip() for part in word.split(","))
    for name in names:
        known = name in ALL or (name.isdecimal() and 0 < int(name) < 256) or hasattr(_signal, name)
        if not known and (name.startswith("SIG") or name == name.lower()):
            raise BadValue(
                flag, name, f"exit codes, signals, exceptions or causes ({', '.join(ALL)})", f"{flag} SIGKILL"
            )
    return names


def _roles(flag: str, word: str) -> tuple[tuple[str, int], ...]:
    pairs = [part.partition("=") for part in word.split(",")]
    if not all(name.strip() and count.strip().isdecimal() for name, _, count in pairs):
        raise BadValue(flag, word, "roles and their counts", f"{flag} trainer=4,evaluator=1")
    return tuple((name.strip(), int(count)) for name, _, count in pairs)


CONVERTERS: dict[str, Callable[[str, str], object]] = {
    "text": _text,
    "switch": _boolean,
    "bool": _boolean,
    "int": _integer,
    "count": _count,
    "positive": _positive,
    "workers": _workers,
    "threads": _threads,
    "duration": _duration,
    "seconds": _duration,
    "hang": _hang_timeout,
    "size": _size,
    "port": _port,
    "ports": _ports,
    "nodes": _nodes,
    "name": _name,
    "host": _host,
    "hosts": _hosts,
    "level": _level,
    "frameworks": _frameworks,
    "env": _env,
    "list": _rank_list,
    "ranks": _ranks,
    "streams": _streams,
    "filters": _filters,
    "modules": _modules,
    "signals": _signals,
    "signal": _signal_name,
    "reasons": _reasons,
    "roles": _roles,
}
