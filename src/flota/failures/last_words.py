"""What a failed worker said last: its traceback, or its last lines."""

from __future__ import annotations

import os

from flota.failures.diagnosis import Evidence, names_lost_peer
from flota.failures.patterns import STRANGERS
from flota.failures.tracebacks import Traceback, fatal_error, last_chain, own_words

LOOK_BACK = 64 << 10
WIDEST = 200
MOST_AFTER = 40
UNCAUGHT = 1  # the exit code of python, where nobody has caught an exception
SAID_LINES = 11  # of a traceback that people are shown
MORE_LINES = 4  # of how its message goes on, and of what was raised before or after it
LAST_LINES = SAID_LINES - 3  # of anything else
ESCAPE = "\x1b["


def read_tail(path: str, start: int) -> list[str]:
    """The last lines of a log, not reaching back beyond `start`."""
    try:
        with open(path, "rb") as log:
            size = log.seek(0, os.SEEK_END)
            begin = log.seek(max(start, size - LOOK_BACK))
            text = log.read().decode(errors="replace")
    except OSError:
        return []
    lines = [_printable(line.rstrip().rpartition("\r")[2]) for line in text.split("\n")]  # a progress bar's last state
    return lines[1:] if begin > start else lines


def _printable(line: str) -> str:
    """Without what would colour a terminal, or move its cursor."""
    first, *others = line.split(ESCAPE)
    line = first + "".join(other.lstrip("0123456789;?")[1:] for other in others)
    return "".join(char for char in line if char.isprintable() or char == "\t")


def last_words(tails: list[list[str]], seen: Evidence) -> Evidence:
    """With the traceback that one of these logs ends with, or its last lines."""
    chains = [last_chain(lines) for lines in tails]
    for chain in chains:
        if chain and _is_the_end(chain[-1], seen):
            return words_of(chain, seen)
    for lines, chain in zip(tails, chains, strict=True):
        fatal = fatal_error(lines)
        said = _cut(fatal[:LAST_LINES]) if fatal else last_lines(lines, LAST_LINES)
        if said:
            tail = own_words(chain[-1].after) if chain and not seen.died else lines
            return seen._replace(said=tuple(said), tail=tuple(last_lines(tail, 2 * LAST_LINES)))
    return seen


def _is_the_end(last: Traceback, seen: Evidence) -> bool:
    """A program that has caught an exception goes on and says more, or ends in a way of its own. What is printed at
    exit can follow one that was not caught."""
    return not seen.died and len(own_words(last.after)) <= (MOST_AFTER if seen.code == UNCAUGHT else 0)


def words_of(chain: list[Traceback], seen: Evidence) -> Evidence:
    """Of a chain the last is named, and the first told. Where the last is but a clean-up that has met the loss of
    another process, it is the other way round."""
    first, last = chain[0], chain[-1]
    named, other = last, f"first: {first.raised}" if len(chain) > 1 else ""
    if names_lost_peer(last.whole) and not names_lost_peer(first.whole):
        named, other = first, f"then: {last.raised}"
    more = _some(named.message or tuple(own_words(named.after)), MORE_LINES - bool(other))
    said = [*shorten(list(named.stack), SAID_LINES), *more, *([other] if other else [])]
    stranger = any(file in line for one in chain for line in one.stack for file in STRANGERS)
    facts = seen._replace(raised=named.raised, root=first.whole, tail=named.message, stranger=stranger)
    return facts._replace(said=tuple(_cut(said)))


def recorded_words(path: str, seen: Evidence) -> Evidence | None:
    """With what a script that uses flota.record or torch's @record has written, if anything."""
    try:
        with open(path) as file:
            text = file.read()
    except (OSError, ValueError):
        return None
    import json

    try:
        message = json.loads(text)["message"]
        stack = message if isinstance(message, str) else message["extraInfo"]["py_callstack"]
    except (ValueError, KeyError, TypeError):
        return None
    return recorded(str(stack), seen)


def recorded(text: str, seen: Evidence) -> Evidence:
    """Of a traceback that the script itself has written down."""
    lines = [_printable(line) for line in text.split("\n") if line]
    chain = last_chain(lines)
    if chain:
        return words_of(chain, seen)
    last = lines[-1] if lines else ""
    return seen._replace(said=tuple(shorten(lines, SAID_LINES)), raised=last, root=last)


def _some(lines: tuple[str, ...], most: int) -> list[str]:
    return [*lines] if len(lines) <= most else [*lines[: most - 1], "  …"]


def shorten(lines: list[str], most: int) -> list[str]:
    """At most so many lines, and one at least: the first and the last are the ones that tell, and the last most."""
    lines = _cut(lines)
    if len(lines) <= most:
        return lines
    return [lines[0], "  …", *lines[len(lines) - most + 2 :]] if most > 2 else lines[-max(most, 1) :]


def last_lines(lines: list[str], most: int) -> list[str]:
    return _cut([line for line in lines if line])[-most:]


def _cut(lines: list[str]) -> list[str]:
    return [line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…" for line in lines]
