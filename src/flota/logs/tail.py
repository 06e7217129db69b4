"""What a failed worker said last: its traceback, or its last lines."""

from __future__ import annotations

import os

from flota.values import NamedTuple

LOOK_BACK = 64 << 10
MARK = "Traceback (most recent call last):"
WIDEST = 200
MOST_AFTER = 40
SAID_LINES = 11  # of a traceback that people are shown
LAST_LINES = SAID_LINES - 3  # of anything else
CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
FATAL, CURRENT = "Fatal Python error: ", "Current thread "


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
    return "".join(char for char in line if char.isprintable() or char == "\t")


def last_traceback(lines: list[str]) -> list[str]:
    """The last Python traceback, without what a framework put before each of its lines (`[rank1]: `)."""
    number = _last_mark(lines, len(lines))
    return _block(_stripped(lines, number)) if number >= 0 else []


def last_exceptions(lines: list[str]) -> tuple[str, str, list[str]]:
    """The line of the last exception, that of the first one of the chain that led to it, and what follows the last.
    Nothing, if much follows: then somebody has caught it, and gone on.
    """
    number = _last_mark(lines, len(lines))
    raised, after = _exception_of(_stripped(lines, number)) if number >= 0 else ("", [])
    if not raised or len(after) > MOST_AFTER:
        return "", "", []
    root = raised
    while _is_chained(lines, number):
        number = _last_mark(lines, number)
        if number < 0:
            break
        root = _exception_of(_stripped(lines, number))[0]
    return raised, root, after


def fatal_error(lines: list[str]) -> list[str]:
    """What faulthandler wrote of a native fault: the error, and the Python stack of the thread that met it."""
    for number in range(len(lines) - 1, -1, -1):
        if lines[number].startswith(FATAL):
            stack = lines[number:]
            begin = next((at for at, line in enumerate(stack) if line.startswith(CURRENT)), 0)
            end = begin + 1
            while end < len(stack) and stack[end].startswith("  "):
                end += 1
            return [stack[0], *stack[begin:end]] if begin else [stack[0]]
    return []


class LastWords(NamedTuple):
    """`said` for people; the rest for a diagnosis: the last exception, the first of its chain, and what came last."""

    said: tuple[str, ...] = ()
    raised: str = ""
    root: str = ""
    tail: tuple[str, ...] = ()


def last_words(tails: list[list[str]], *, signalled: bool) -> LastWords:
    """The last traceback in one of these logs, or its last lines: a traceback is not the end of who was `signalled`."""
    for lines in tails if not signalled else ():
        raised, root, after = last_exceptions(lines)
        if raised:
            return LastWords(tuple(shorten(last_traceback(lines), SAID_LINES)), raised, root, tuple(after))
    for lines in tails:
        said = last_lines(fatal_error(lines) or lines, LAST_LINES)
        if said:
            return LastWords(tuple(said), tail=tuple(last_lines(lines, 2 * LAST_LINES)))
    return LastWords()


def _last_mark(lines: list[str], before: int) -> int:
    """Where the last Python traceback before this line begins; -1 if there is none. Paddle prints C++ ones, too."""
    for number in range(before - 1, -1, -1):
        if MARK in lines[number] and f"C++ {MARK}" not in lines[number]:
            return number
    return -1


def _stripped(lines: list[str], number: int) -> list[str]:
    prefix = lines[number].partition(MARK)[0]
    return [line.removeprefix(prefix) for line in lines[number:]]


def _exception_of(lines: list[str]) -> tuple[str, list[str]]:
    """The exception's line, and what follows it."""
    at = _end_of_stack(lines)
    return ("", []) if at >= len(lines) else (lines[at], lines[at + 1 :])


def _is_chained(lines: list[str], number: int) -> bool:
    prefix = lines[number].partition(MARK)[0]
    before = next((line for line in reversed(lines[:number]) if line.removeprefix(prefix).strip()), "")
    return any(before.endswith(words) for words in CHAINED)


def _block(lines: list[str]) -> list[str]:
    """From the mark to the exception's line, and the indented lines that go on with its message."""
    end = _end_of_stack(lines) + 1
    while end < len(lines) and lines[end].startswith(" "):
        end += 1
    return [line for line in lines[:end] if line]


def _end_of_stack(lines: list[str]) -> int:
    end = 1
    while end < len(lines) and (lines[end].startswith(" ") or not lines[end]):
        end += 1
    return end


def shorten(lines: list[str], most: int) -> list[str]:
    """At most so many lines: the first and the last are the ones that tell."""
    lines = [line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…" for line in lines]
    if len(lines) <= most:
        return lines
    return [lines[0], "  …", *lines[len(lines) - most + 2 :]]


def last_lines(lines: list[str], most: int) -> list[str]:
    said = [line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…" for line in lines if line]
    return said[-most:]
