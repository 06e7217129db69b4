"""Extracts the last output of a failed worker: its traceback with the chain that led to it, or its last lines."""

from __future__ import annotations

import os

from flota.failures.diagnosis import UNCAUGHT, Evidence, exception_name, names_lost_peer
from flota.failures.patterns import OTHER_SERVICES
from flota.files import open_file
from flota.logs.directory import read_end
from flota.values import NamedTuple

TAIL_BYTES = 64 << 10
MOST_RECORDED = 1 << 20  # bytes of a recorded exception
MAX_WIDTH = 200
MAX_LINES_AFTER = 40
TRACEBACK_LINES = 11  # of a traceback to show
MORE_LINES = 4  # for the rest of its message, and for another exception of the chain
LAST_LINES = TRACEBACK_LINES - 3  # of other output
ESCAPE = "\x1b["

# Python's tracebacks.
TRACEBACK = "Traceback (most recent call last):"
NATIVE_TRACEBACK = f"C++ {TRACEBACK}"  # printed by Paddle
GROUP = "Exception Group "
GROUP_BEGINS, IN_GROUP = f"  + {GROUP}", "  | "
IN_CHILD = "Original "  # a data loader's traceback, inside the message of torch's exception
CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
SUMMARY = "Error Message Summary:"  # Paddle's message follows it
SUMMARY_LINES = 8
# Start of errors during interpreter shutdown: they do not cause the exit.
AT_EXIT = ("Exception ignored ", "Error in atexit")
LEVELS = "IWEF"  # in log lines of native code: `[W1116 …`, `[W Module.cpp:1]`, `E1116 …`
NCCL_ERROR = "NCCL error"
NCCL_LINES = ("nccl", "Last error:")  # starts of the lines that follow; one more line follows the last
FATAL, CURRENT = "Fatal Python error: ", "Current thread "


def read_tail(path: str, start: int) -> list[str]:
    """The last lines of a log, but none before the offset `start`."""
    try:
        with os.fdopen(open_file(path, os.O_RDONLY), "rb") as log:
            size = log.seek(0, os.SEEK_END)
            begin = log.seek(max(start, size - TAIL_BYTES))
            text = log.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    lines = _shown_lines(text)
    return lines[1:] if begin > start else lines


def _shown_lines(text: str) -> list[str]:
    """Lines as a terminal shows them: of a progress bar the last state. An exception is kept whole: its message may
    contain anything.
    """
    lines: list[str] = []
    prefix: str | None = None  # of the traceback that has begun
    for raw in text.split("\n"):
        line = raw.rstrip()
        raises = prefix is not None and line.removeprefix(prefix)[:1] not in ("", " ", "\r")
        line = _printable(line.replace("\r", " ") if raises else line.rpartition("\r")[2])
        prefix = _prefix(line) if TRACEBACK in line else None if raises else prefix
        lines.append(line)
    return lines


def _printable(line: str) -> str:
    """Without escape sequences and control characters."""
    first, *others = line.split(ESCAPE)
    line = first + "".join(other.lstrip("0123456789;?")[1:] for other in others)
    return "".join(char for char in line if char.isprintable() or char == "\t")


def last_output(tails: list[list[str]], known: Evidence) -> Evidence:
    """Add the traceback at the end of one of these logs, or else the last lines."""
    chains = [last_chain(lines) for lines in tails]
    for chain in chains:
        if chain and _ended_the_process(chain[-1], known):
            return evidence_of(chain, known)
    for lines, chain in zip(tails, chains, strict=True):
        fatal = fatal_error(lines)
        said = _cut(fatal[:LAST_LINES]) if fatal else last_lines(lines, LAST_LINES)
        if said:
            tail = own_output(chain[-1].after) if chain and not known.died else lines
            return known._replace(said=tuple(said), tail=tuple(last_lines(tail, 2 * LAST_LINES)))
    return known


def _ended_the_process(last: Traceback, known: Evidence) -> bool:
    """Whether this exception ended the process. After a caught one the program prints more or exits in another way.
    After an uncaught one only output at exit can follow."""
    return not known.died and len(own_output(last.after)) <= (MAX_LINES_AFTER if known.code == UNCAUGHT else 0)


def evidence_of(chain: list[Traceback], known: Evidence) -> Evidence:
    """Name the last exception of a chain and mention the first, or the reverse if only the last one reports a lost
    process: cleanup code often raises that."""
    first, last = chain[0], chain[-1]
    named, other = last, f"first: {first.raised}" if len(chain) > 1 else ""
    if names_lost_peer(last.whole) and not names_lost_peer(first.whole):
        named, other = first, f"then: {last.raised}"
    more = [*(named.message or own_output(named.after))]
    most = MORE_LINES - bool(other)
    more = more if len(more) <= most else [*more[: most - 1], "  …"]
    said = [*shorten(list(named.stack), TRACEBACK_LINES), *more, *([other] if other else [])]
    other_service = any(file in line for one in chain for line in one.stack for file in OTHER_SERVICES)
    facts = known._replace(raised=named.raised, root=first.whole, tail=named.message, other_service=other_service)
    return facts._replace(said=tuple(_cut(said)))


def recorded_exception(path: str, known: Evidence) -> Evidence | None:
    """Add the exception that flota.record or torch's @record has written. None if there is none."""
    text = read_end(path, MOST_RECORDED)
    if not text:
        return None
    import json

    try:
        message = json.loads(text.decode(errors="replace"))["message"]
        stack = message if isinstance(message, str) else message["extraInfo"]["py_callstack"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    lines = [_printable(line) for line in str(stack).split("\n") if line]
    chain = last_chain(lines)
    if chain:
        return evidence_of(chain, known)
    last = lines[-1] if lines else ""
    return known._replace(said=tuple(shorten(lines, TRACEBACK_LINES)), raised=last, root=last)


def shorten(lines: list[str], most: int) -> list[str]:
    """Keep the first line and the last ones, at most `most` lines in all; at least the last line."""
    lines = _cut(lines)
    if len(lines) <= most:
        return lines
    return [lines[0], "  …", *lines[len(lines) - most + 2 :]] if most > 2 else lines[-max(most, 1) :]


def last_lines(lines: list[str], most: int) -> list[str]:
    return _cut([line for line in lines if line])[-most:]


def _cut(lines: list[str]) -> list[str]:
    return [line if len(line) <= MAX_WIDTH else f"{line[: MAX_WIDTH - 1]}…" for line in lines]


# Tracebacks in a log.


class Traceback(NamedTuple):
    """`stack` ends with the line `raised`; `message`: the rest of the exception's message; `after`: later output."""

    stack: tuple[str, ...]
    raised: str
    message: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def whole(self) -> str:
        """The exception with its whole message; for a group, its first exception."""
        is_group = self.stack[0].startswith(GROUP) and self.message
        return self.message[0] if is_group else "\n".join((self.raised, *self.message))


def last_chain(lines: list[str]) -> list[Traceback]:
    """The last traceback, after those that led to it, without the prefix that a framework adds to each line."""
    number = _last_traceback(lines, len(lines))
    chain: list[Traceback] = []
    while number >= 0:
        one = _read(lines[number:])
        if not one.raised:
            break
        chain.insert(0, one)
        link = _link(lines, number)
        lines = lines[: max(link, 0)]
        number = _last_traceback(lines, link)
    return chain


def own_output(after: tuple[str, ...]) -> list[str]:
    """The output of the program itself, without messages of frameworks and the interpreter at exit."""
    ends = (number for number, line in enumerate(after) if NATIVE_TRACEBACK in line or line.startswith(AT_EXIT))
    return [line for line in after[: next(ends, len(after))] if line.strip("- ") and not _is_native_log(line)]


def _is_native_log(line: str) -> bool:
    text = line.partition("]:")[2] if line.startswith("[rank") else line
    level, rest = text.removeprefix("[")[:1], text.removeprefix("[")[1:]
    is_native = bool(level) and level in LEVELS and (rest[:4].isdigit() or (text[0] == "[" and rest[:1] == " "))
    return is_native or text.startswith("wandb: ")


def fatal_error(lines: list[str]) -> list[str]:
    """What faulthandler wrote about a native fault: the error, and the Python stack of the current thread, innermost
    frame first."""
    for number in range(len(lines) - 1, -1, -1):
        if lines[number].startswith(FATAL):
            stack = lines[number:]
            begin = next((at for at, line in enumerate(stack) if line.startswith(CURRENT)), 0)
            end = begin + 1
            while end < len(stack) and stack[end].startswith("  "):
                end += 1
            return [stack[0], *stack[begin:end]] if begin else [stack[0]]
    return []


def _last_traceback(lines: list[str], before: int) -> int:
    """The first line of the last Python traceback before this line, or -1. Tracebacks inside an exception group belong
    to the group."""
    for number in range(before - 1, -1, -1):
        at_exit = number > 0 and lines[number - 1].startswith(AT_EXIT)
        line = lines[number]
        if TRACEBACK in line and NATIVE_TRACEBACK not in line and not _is_in_group(line) and not at_exit:
            return number
    return -1


def _is_in_group(line: str) -> bool:
    before = line.partition(TRACEBACK)[0].removesuffix(GROUP)
    return before.rpartition(": ")[2].strip() == "|"


def _prefix(line: str) -> str:
    return line.partition(TRACEBACK)[0].removesuffix(GROUP_BEGINS).removesuffix(IN_CHILD)


def _link(lines: list[str], number: int) -> int:
    """The line that links this traceback to the one before it, or -1."""
    prefix = _prefix(lines[number])
    before = (at for at in range(number - 1, -1, -1) if lines[at].removeprefix(prefix.rstrip()).strip())
    at = next(before, -1)
    return at if at >= 0 and lines[at].endswith(CHAINED) else -1


def _read(lines: list[str]) -> Traceback:
    """Parse the traceback that starts at the first of these lines."""
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
    """A message continues in lines with the framework's prefix; without a prefix, in indented lines and in NCCL's."""
    prefixed = bool(prefix) and lines[at].startswith(prefix)
    begins = (" ", "\t", *(NCCL_LINES if NCCL_ERROR in lines[at] else ()))
    end = at + 1
    while end < len(lines):
        goes_on = lines[end].startswith(prefix) or lines[end] == prefix.rstrip()
        if not (goes_on if prefixed else lines[end].startswith(begins) or lines[end - 1] == NCCL_LINES[-1]):
            break
        end += 1
    return end
