"""The word for a master (`--master` and its like) to its address."""

from __future__ import annotations

from flota.errors import BadValue, MasterWithoutPort, SecretInAddress
from flota.job.nodes import Place
from flota.values import NamedTuple

ETCD_PORT = 2379
SCHEMES = {  # whether it is a real etcd, whether it is TLS
    "http": (False, False),
    "https": (False, True),
    "etcd": (True, False),
    "etcds": (True, True),
}
NEVER_IN_A_HOST = set(" \t\n\"'\\/;&=<>[]")


class MasterAddress(NamedTuple):
    """Where nodes rendezvous. Without a place this node serves and prints where."""

    etcd: bool = False
    tls: bool = False
    places: tuple[Place, ...] = ()
    serves: bool | None = None


def read_master(flag: str, word: str, *, scheme: str = "http", port: int | None = None) -> MasterAddress:
    """`[SCHEME://]HOST[:PORT]`, several of them for etcd.

    A word without a scheme means `scheme`. etcd's port is known; a node that serves has `port`, or must be given one.
    """
    refuse_secrets(flag, word)
    named, separator, rest = word.partition("://")
    if separator and named.lower() not in SCHEMES:
        raise BadValue(flag, word, f"one of {', '.join(f'{known}://' for known in SCHEMES)}", example(flag))
    etcd, tls = SCHEMES[named.lower() if separator else scheme]
    etcd = etcd or SCHEMES[scheme][0]  # with --rdzv-backend etcd, http:// is the way to etcd
    parts = (rest if separator else word).rstrip("/").split(",")
    if len(parts) > 1 and not etcd:
        raise BadValue(flag, word, "one address: only etcd has several", "--master etcd://10.0.0.1,10.0.0.2")
    return MasterAddress(
        etcd, tls, tuple(read_place(flag, part.strip(), ETCD_PORT if etcd else port) for part in parts)
    )


def refuse_secrets(flag: str, word: str) -> None:
    """Before anything shows the word: the command line and the first block are no place for a password."""
    if "@" in word or "?" in word:
        raise SecretInAddress(flag)


def read_place(flag: str, word: str, port: int | None) -> Place:
    host, number = _split(flag, word)
    if not host or set(host) & NEVER_IN_A_HOST:
        raise BadValue(flag, word, "HOST:PORT", example(flag))
    if number is None:
        if port is None:
            raise MasterWithoutPort(flag, word)
        return Place(host, port)
    if not number.isdecimal() or not 1 <= int(number) <= 65535:
        raise BadValue(flag, word, "a port from 1 to 65535 behind the host", example(flag))
    return Place(host, int(number))


def _split(flag: str, word: str) -> tuple[str, str | None]:
    """Host and port; the colons of an IPv6 address are told from the port's by brackets."""
    if word.startswith("["):
        host, bracket, tail = word[1:].partition("]")
        if ":" not in host or not bracket or (tail and not tail.startswith(":")):
            raise BadValue(flag, word, "HOST:PORT", "--master [fd00::1]:8090")
        return host, tail[1:] if tail else None
    if word.count(":") > 1:
        raise BadValue(flag, word, "an IPv6 address in brackets", "--master [fd00::1]:8090")
    host, colon, number = word.partition(":")
    return host, number if colon else None


def example(flag: str) -> str:
    """A variable or a key is answered with the flag that does the same."""
    return f"{flag if flag.startswith('-') else '--master'} 10.0.0.1:8090"
