"""events.<node>.jsonl: what happened, for programs. One JSON object per line.

The JSON is written without the json module, which imports re: 5 ms of CPU while the workers' interpreters need it.
"""

from __future__ import annotations

import time
from _json import encode_basestring_ascii as quoted

from flota.logs.directory import append, open_append

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from flota.logs.nonblocking_writer import NonblockingWriter


class EventLog:
    """Writes to the file and, with a `writer`, to the console as well."""

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
