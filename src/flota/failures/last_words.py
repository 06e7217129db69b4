"""What a failed worker said last: its traceback, with what led to it, or its last lines."""

from __future__ import annotations

import os

from flota.failures.diagnosis import Evidence, exception_name, names_lost_peer
from flota.failures.patterns import STRANGERS
from flota.values import NamedTuple

LOOK_BACK = 64 << 10
WIDEST = 200
MOST_AFTER = 40
UNCAUGHT = 1  # the exit code of python, where nobody has caught an exception
SAID_LINES = 11  # of a traceback that people are shown
MORE_LINES = 4  # of how its message goes on, and of what was raised before or after it
LAST_LINES = SAID_LINES - 3  # of anything else
ESCAPE = "\x1b["

# Python's tracebacks.
MARK = "Traceback (most recent call last):"
NATIVE = f"C++ {MARK}"  # Paddle's
GROUP = "Exception Group "
GROUP_BEGINS, IN_GROUP = f"  + {GROUP}", "  | "
REMOTE = "Original "  # of a data loader's process, in the message of torch's own exception
CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
SUMMARY = "Error Message Summary:"  # behind it Paddle's message begins
SUMMARY_LINES = 8
# Before what the interpreter has met while it tidied up: it ends all the same, and not because of that.
TIDYING = ("Exception ignored ", "Error in atexit")
LEVELS = "IWEF"  # of native code's own logs: `[W1116 …`, `[W Module.cpp:1]`, `E1116 …`
NCCLS_ERROR = "NCCL error"
NCCL = ("nccl", "Last error:")  # begin the lines that follow; behind the last one there is one more
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
    more = [*(named.message or own_words(named.after))]
    most = MORE_LINES - bool(other)
    more = more if len(more) <= most else [*more[: most - 1], "  …"]
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
    lines = [_printable(line) for line in str(stack).split("\n") if line]
    chain = last_chain(lines)
    if chain:
        return words_of(chain, seen)
    last = lines[-1] if lines else ""
    return seen._replace(said=tuple(shorten(lines, SAID_LINES)), raised=last, root=last)


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


# Tracebacks in a log.


class Traceback(NamedTuple):
    """`stack` ends with the line that was `raised`; `message` goes on with it; `after`: what the process said then."""

    stack: tuple[str, ...]
    raised: str
    message: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def whole(self) -> str:
        """What was raised, with its message; of a group the first of its exceptions."""
        is_group = self.stack[0].startswith(GROUP) and self.message
        return self.message[0] if is_group else "\n".join((self.raised, *self.message))


def last_chain(lines: list[str]) -> list[Traceback]:
    """The last traceback, and before it those that led to it; without what a framework put before each line."""
    number = _last_mark(lines, len(lines))
    chain: list[Traceback] = []
    while number >= 0:
        one = _read(lines[number:])
        if not one.raised:
            break
        chain.insert(0, one)
        link = _link(lines, number)
        lines = lines[: max(link, 0)]
        number = _last_mark(lines, link)
    return chain


def own_words(after: tuple[str, ...]) -> list[str]:
    """What the process itself said, without a framework's and the interpreter's own words at an end."""
    ends = (number for number, line in enumerate(after) if NATIVE in line or line.startswith(TIDYING))
    return [line for line in after[: next(ends, len(after))] if line.strip("- ") and not _is_aside(line)]


def _is_aside(line: str) -> bool:
    text = line.partition("]:")[2] if line.startswith("[rank") else line
    level, rest = text.removeprefix("[")[:1], text.removeprefix("[")[1:]
    is_native = bool(level) and level in LEVELS and (rest[:4].isdigit() or (text[0] == "[" and rest[:1] == " "))
    return is_native or text.startswith("wandb: ")


def fatal_error(lines: list[str]) -> list[str]:
    """What faulthandler wrote of a native fault: the error, and the Python stack of the thread that met it, the
    innermost frame first."""
    for number in range(len(lines) - 1, -1, -1):
        if lines[number].startswith(FATAL):
            stack = lines[number:]
            begin = next((at for at, line in enumerate(stack) if line.startswith(CURRENT)), 0)
            end = begin + 1
            while end < len(stack) and stack[end].startswith("  "):
                end += 1
            return [stack[0], *stack[begin:end]] if begin else [stack[0]]
    return []


def _last_mark(lines: list[str], before: int) -> int:
    """Where the last Python traceback before this line begins; -1 if there is none. Those inside of a group are part of
    the group's."""
    for number in range(before - 1, -1, -1):
        tidying = number > 0 and lines[number - 1].startswith(TIDYING)
        if MARK in lines[number] and NATIVE not in lines[number] and not _is_in_group(lines[number]) and not tidying:
            return number
    return -1


def _is_in_group(line: str) -> bool:
    before = line.partition(MARK)[0].removesuffix(GROUP)
    return before.rpartition(": ")[2].strip() == "|"


def _prefix(line: str) -> str:
    return line.partition(MARK)[0].removesuffix(GROUP_BEGINS).removesuffix(REMOTE)


def _link(lines: list[str], number: int) -> int:
    """Where it is said that this traceback follows from the one before it; -1 if it does not."""
    prefix = _prefix(lines[number])
    before = (at for at in range(number - 1, -1, -1) if lines[at].removeprefix(prefix.rstrip()).strip())
    at = next(before, -1)
    return at if at >= 0 and lines[at].endswith(CHAINED) else -1


def _read(lines: list[str]) -> Traceback:
    """That which begins with the first of these lines."""
    prefix = _prefix(lines[0])
    is_group = GROUP_BEGINS in lines[0]
    own = [line.removeprefix(prefix) if line != prefix.rstrip() else "" for line in lines]
    framed = [line.removeprefix(IN_GROUP) for line in own] if is_group else own
    at = 1
    while at < len(framed) and (framed[at].startswith(" ") or not framed[at]):
        at += 1
    if at >= len(framed):
        return Traceback((), "")
    end = _end_of_message(lines, at, prefix)
    message = own[at + 1 : end]
    if is_group:
        inner = [line.strip().removeprefix("| ") for line in message if line.strip().startswith("| ")]
        message = [line for line in inner if exception_name(line)]  # the exceptions of the group
    elif framed[at].rstrip().endswith(":") and SUMMARY in own:
        begin = own.index(SUMMARY) + 1
        summary = [number for number in range(begin, len(own)) if own[number].strip("- ")][:SUMMARY_LINES]
        message, end = [own[number] for number in summary], max((*summary, begin)) + 1
    stack = (framed[0].lstrip(" +"), *(line for line in framed[1 : at + 1] if line))
    return Traceback(stack, framed[at], tuple(line for line in message if line), tuple(own[end:]))


def _end_of_message(lines: list[str], at: int, prefix: str) -> int:
    """A message goes on in lines that the framework has put its prefix before, or that are indented or NCCL's."""
    prefixed = bool(prefix) and lines[at].startswith(prefix)
    begins = (" ", "\t", *(NCCL if NCCLS_ERROR in lines[at] else ()))
    end = at + 1
    while end < len(lines):
        goes_on = lines[end].startswith(prefix) or lines[end] == prefix.rstrip()
        if not (goes_on if prefixed else lines[end].startswith(begins) or lines[end - 1] == NCCL[-1]):
            break
        end += 1
    return end
