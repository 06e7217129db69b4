"""flota's own two logs: <job_id>.<node>.log, its messages, and events.<node>.jsonl, what happened, for programs;
and the banners in the first: the job's configuration and a worker's variables.

JSON is written without the json module, which imports re: 5 ms of CPU while the workers' interpreters need it.
"""

from __future__ import annotations

import time
from _collections_abc import Iterable, Mapping
from _json import encode_basestring_ascii as quoted

from flota.logs.directory import append, open_append
from flota.logs.nonblocking_writer import NonblockingWriter

LEVELS = {"NOTSET": 0, "DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
RED, YELLOW, PLAIN = "\033[31m", "\033[33m", "\033[0m"
COLOURS = {"WARNING": YELLOW, "ERROR": RED}
NAME_WIDTH, GAP, VALUE_WIDTH = 40, 2, 45
START_LINE = "Local start {} processes. First process distributed environment info (Only For Debug):"


class OwnLog:
    """Writes messages at or above the level to stderr and to the file, there without colour."""

    def __init__(self, path: str, writer: NonblockingWriter, level: str, *, colour: bool) -> None:
        self.writer = writer
        self._lowest = LEVELS[level]
        self._colour = colour
        self._file = open_append(path)

    def write_line(self, level: str, text: str) -> None:
        """One sentence, after its level and the time."""
        now = time.time()
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
        self.write_text(level, f"{level} {clock},{int(now * 1000) % 1000:03d} flota] {text}")

    def write_text(self, level: str, text: str) -> None:
        """Text as it is."""
        if LEVELS[level] < self._lowest:
            return
        append(self._file, f"{text}\n".encode(errors="surrogateescape"))
        paint = COLOURS.get(level) if self._colour else None
        if paint:
            first, newline, rest = text.partition("\n")
            text = f"{paint}{first}{PLAIN}{newline}{rest}"
        self.writer.write(f"{text}\n".encode(errors="surrogateescape"))


class EventLog:
    """Writes one JSON object per line to the file and, with a `writer`, to the console as well."""

    def __init__(self, path: str, job_id: str, node: str, writer: NonblockingWriter | None) -> None:
        self._common = {"job_id": job_id, "node": node}
        self._writer = writer
        self._file = open_append(path)

    def write(self, event: str, **facts: object) -> None:
        now = time.time()
        clock = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1e6) % 1_000_000:06d}Z"
        fields = {"time": clock, "monotonic": time.monotonic(), "event": event, **self._common, **facts}
        line = f"{to_json(fields)}\n".encode()
        append(self._file, line)
        if self._writer:
            self._writer.write(line)


def to_json(value: object) -> str:
    """Numbers, text, lists and mappings of them, as JSON on one line."""
    if isinstance(value, str):
        return quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(name)}: {to_json(part)}" for name, part in value.items()) + "}"
    assert isinstance(value, (list, tuple)), value
    return "[" + ", ".join(to_json(part) for part in value) + "]"


def to_json_lines(value: Mapping[str, object]) -> str:
    """A mapping as JSON with one key per line."""
    lines = ",\n".join(f" {quoted(name)}: {to_json(part)}" for name, part in value.items())
    return "{\n" + lines + "\n}\n"


def configuration_banner(pairs: Iterable[tuple[str, str]]) -> str:
    """As Paddle's launcher prints it; so is `variable_table`."""
    lines = [f"{name}: {value}".rstrip() for name, value in sorted(pairs)]
    return "\n".join(["-----------  Configuration Arguments -----------", *lines, "-" * 48])


def variable_table(pairs: Iterable[tuple[str, str]]) -> str:
    width = NAME_WIDTH + GAP + VALUE_WIDTH
    rows = [f"{name:<{NAME_WIDTH}}{'':{GAP}}{_end_of(value)}".rstrip() for name, value in pairs]
    head = f"{'Distributed Envs':^{NAME_WIDTH}}{'':{GAP}}Value"
    return "\n".join(["=" * width, head, "-" * width, *rows, "=" * width])


def _end_of(value: str) -> str:
    """The end of a long value is what differs between workers."""
    return value if len(value) <= VALUE_WIDTH else f"... {value[4 - VALUE_WIDTH :]}"
