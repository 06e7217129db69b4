"""flota's own two logs: its messages in <job_id>.<node>.log, and events for programs in events.<node>.jsonl.

JSON is written without the json module, which imports re: 5 ms of CPU while the workers' interpreters need it.
"""

from __future__ import annotations

import os
import time
from _collections_abc import Callable, Mapping
from _json import encode_basestring_ascii as quoted

from flota.logs.directory import append, open_append
from flota.logs.nonblocking_writer import NonblockingWriter

MONOTONIC = ("at", "began")
LEVELS = {"NOTSET": 0, "DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
RED, YELLOW, PLAIN = "\033[31m", "\033[33m", "\033[0m"
COLOURS = {"WARNING": YELLOW, "ERROR": RED}
LABELS = {"DEBUG": "debug: ", "WARNING": "warning: ", "ERROR": "error: "}


class OwnLog:
    """Writes messages at or above the level to the file, with level and time, and to stderr, as people read them.

    `quiet`: only errors go to stderr. `file_only`: for the time being, nothing does.
    """

    file_only = False

    def __init__(
        self,
        path: str,
        writer: NonblockingWriter,
        level: str,
        *,
        quiet: bool,
        colour: bool,
        on_error: Callable[[str], object] = str,
    ) -> None:
        self.writer = writer
        self._lowest = LEVELS[level]
        self._lowest_shown = max(self._lowest, LEVELS["ERROR"]) if quiet else self._lowest
        self._colour = colour
        self.file = open_append(path, on_error)

    def write_line(self, level: str, text: str, *details: str) -> None:
        """A sentence, and indented lines that belong to it."""
        below = "".join(f"\n  {line}" for line in details)
        self._write_file(level, f"{stamp(level)}{text}{below}")
        self._write_console(level, f"flota: {LABELS.get(level, '')}", f"{text}{below}")

    def write_text(self, level: str, text: str, on_console: str | None = None) -> None:
        """Lines as they are. `on_console`: shorter ones for stderr."""
        self._write_file(level, text)
        first, newline, rest = (text if on_console is None else on_console).partition("\n")
        self._write_console(level, first, f"{newline}{rest}")

    def _write_file(self, level: str, text: str) -> None:
        if LEVELS[level] >= self._lowest:
            append(self.file, f"{text}\n".encode(errors="surrogateescape"))

    def _write_console(self, level: str, painted: str, text: str) -> None:
        if LEVELS[level] >= self._lowest_shown and not self.file_only:
            paint = COLOURS.get(level) if self._colour else None
            head = f"{paint}{painted}{PLAIN}" if paint else painted
            self.writer.write(f"{head}{text}\n".encode(errors="surrogateescape"))


def stamp(level: str) -> str:
    """What a line of the file, and of Paddle's start block, begins with."""
    now = time.time()
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    return f"{level} {clock},{int(now * 1000) % 1000:03d} flota] "


class EventLog:
    """Writes one JSON object per line to the file and, with a `writer`, to the console as well."""

    def __init__(
        self,
        path: str,
        job_id: str,
        node: str,
        writer: NonblockingWriter | None,
        on_error: Callable[[str], object] = str,
    ) -> None:
        self._common = {"job_id": job_id, "node": node, "flota_pid": os.getpid()}
        self._writer = writer
        self.file = open_append(path, on_error)

    def write(self, event: str, **facts: object) -> None:
        fields = {"time": utc_time(), "monotonic": time.monotonic(), "event": event, **self._common, **facts}
        line = f"{to_json(fields)}\n".encode()
        append(self.file, line)
        if self._writer:
            self._writer.write(line)


def utc_time() -> str:
    """The time of day, for programs."""
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1e6) % 1_000_000:06d}Z"


def event_in_words(event: str, facts: Mapping[str, object]) -> str:
    """For example `worker started: rank 0, pid 4711`, without lists, mappings and monotonic times."""
    shown = {name: value for name, value in facts.items() if name not in MONOTONIC}
    simple = {name: value for name, value in shown.items() if isinstance(value, str | int | float)}
    words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in simple.items())
    return f"{event.replace('_', ' ')}{': ' * bool(words)}{words}"


def to_json(value: object) -> str:
    """Numbers, strings, lists and mappings as JSON on one line."""
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
