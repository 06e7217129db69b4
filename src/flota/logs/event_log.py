"""events.<node>.jsonl: what happened, for programs. One JSON object a line."""

from __future__ import annotations

import os
import time

from flota.logs.directory import open_append
from flota.logs.json_text import to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.logs.nonblocking_writer import NonblockingWriter


class EventLog:
    def __init__(self, path: str, job_id: str, node: str, writer: NonblockingWriter | None) -> None:
        self._about = {"job_id": job_id, "node": node}
        self._writer = writer
        self._file = open_append(path)

    def write(self, event: str, **facts: object) -> None:
        now = time.time()
        clock = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1e6) % 1_000_000:06d}Z"
        line = to_json({"time": clock, "monotonic": time.monotonic(), "event": event, **self._about, **facts})
        try:
            os.write(self._file, f"{line}\n".encode())
        except OSError:
            pass  # a full disk must not end the job
        if self._writer:
            self._writer.write(f"{line}\n".encode())
