"""What the launcher and a node that it starts over ssh write to each other, one line each. Pure.

The node writes `hello` when it runs, the launcher writes a Question, the node an Answer, the launcher Go. From then on
the node's output is that of the job, and the launcher writes the lines of host/lifeline.py. Lines of the node begin
with MARK: the files that a shell reads at its start may print anything before.
"""

from __future__ import annotations

import json

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Message = TypeVar("Message", "Hello", "HostQuestion", "HostAnswer", "Go", "Detached")

MARK = b"flota-node "
# The types of all fields of all messages.
FIELDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("version", "directory", "kind", "target", "digest", "address", "token", "console"), str),
    **dict.fromkeys(("first", "several"), bool),
    **dict.fromkeys(("port", "pid"), int),
    **dict.fromkeys(("problems", "words"), list),
    "time": (int, float),
    "env": dict,
}
MODULE = "flota.cli.remote_node"


class UnreadableLine(Exception):
    """A line is not the message that was expected."""


class Hello(NamedTuple):
    version: str  # of flota; with another one, the other lines may differ as well


class HostQuestion(NamedTuple):
    """What the launcher asks each host before it starts anything."""

    directory: str
    kind: str  # script, module or program
    target: str
    digest: str  # of the script here; empty: there is none to compare with
    first: bool  # whether this host is to serve the master, and has to choose a port
    several: bool  # whether the job has several nodes


class HostAnswer(NamedTuple):
    problems: list[str]
    time: float  # by the host's clock
    address: str = ""  # of the master
    port: int = 0


class Go(NamedTuple):
    """What a node needs to start. The token is here because all users of a machine can read its command lines."""

    words: list[str]
    token: str
    env: dict[str, str]
    console: str = ""  # a file for the console of a job that goes on without the launcher

    def __repr__(self) -> str:
        return f"Go({self.words!r}, …)"


class Detached(NamedTuple):
    """The answer to Go with a console file."""

    pid: int


def clock_error(asked: float, answered: float, shown: float) -> float:
    """By how much a clock is ahead, or behind if negative: how far it was outside of the time in which it was read."""
    return max(shown - answered, 0.0) or min(shown - asked, 0.0)


def encode(message: Hello | HostQuestion | HostAnswer | Go | Detached) -> bytes:
    return json.dumps(dict(zip(message._fields, message, strict=True))).encode() + b"\n"


def decode(line: bytes, kind: type[Message]) -> Message:
    """Raises UnreadableLine for anything but a message of this kind."""
    try:
        message = kind(**json.loads(line.removeprefix(MARK)))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UnreadableLine(str(error)) from None
    for field, value in zip(message._fields, message, strict=True):
        if not isinstance(value, FIELDS[field]):
            raise UnreadableLine(f"{field} is a {type(value).__name__}")
    return message
