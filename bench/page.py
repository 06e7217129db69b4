"""What a browser that shows the page of a job with 64 ranks costs the node and the server of the page, and how much it
loads until the first snapshot is shown.
"""

from __future__ import annotations

import http.client
import os
import re
import threading
import time
from contextlib import closing
from pathlib import Path

from bench.harness import FLOTA, WORKERS, sleeping_job
from bench.processes import Broken, cpu_used, wait_until
from bench.table import Row

SETTLING, WATCHED = 10.0, 30.0  # seconds
CPU_BAR, SERVER_BAR = 0.5, 1.0  # percent: of the node, and of the process that serves the page
LOAD_BAR = 200  # kB
RANKS = 64
DATA = ("api/curves", "api/timeline", "api/tails")


def measure() -> list[Row]:
    # Heartbeats and lines cost the same with and without a page: workers that make few are enough.
    script = WORKERS / "note_and_print.py"
    with sleeping_job(FLOTA, RANKS, "--console", "none", "--dashboard", "--", script=script) as (pid, job):
        job.wait_for(attempt=0)
        host, token = _find_page(job.notes.parent / "log")
        loaded = sum(len(_get(host, token, path)) for path in _files_of_page(host, token) + list(DATA))
        loaded += len(_first_snapshot(host, token))
        time.sleep(SETTLING)
        own = {"node": {pid}, "server": {_server_of(pid)}}
        unwatched = cpu_used(own, WATCHED)
        threading.Thread(target=_watch, args=(host, token, 2 * WATCHED), daemon=True).start()
        time.sleep(SETTLING)
        watched = cpu_used(own, WATCHED)
    return [
        _cpu_row("the node", unwatched["node"], watched["node"], CPU_BAR),
        _cpu_row("the page's server", unwatched["server"], watched["server"], SERVER_BAR),
        Row(
            f"page load with the first snapshot, {RANKS} workers",
            f"{loaded / 1000:.0f} kB",
            ratio="-",
            bar=f"<= {LOAD_BAR} kB",
            met=loaded <= LOAD_BAR * 1000,
        ),
    ]


def _cpu_row(what: str, unwatched: float, watched: float, bar: float) -> Row:
    """`unwatched`, `watched`: CPU seconds."""
    before, percent = (100 * seconds / WATCHED for seconds in (unwatched, watched))
    return Row(
        f"CPU of {what} over {WATCHED:.0f} s, {RANKS} workers, a page watches",
        f"{percent:.3f} %",
        ratio=f"{percent - before:+.3f} % vs. unwatched",
        bar=f"<= {bar} % more",
        met=percent - before <= bar,
        plain=f"{before:.3f} %",
    )


def _server_of(node: int) -> int:
    children = Path(f"/proc/{node}/task/{node}/children").read_text().split()
    found = [int(pid) for pid in children if b"dashboard" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    if len(found) != 1:
        raise Broken(f"the node has {len(found)} servers of a page")
    return found[0]


def _first_snapshot(host: str, token: str) -> bytes:
    with closing(http.client.HTTPConnection(host, timeout=30)) as connection:
        connection.request("GET", "/api/stream", headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().readline()


def _find_page(log: Path) -> tuple[str, str]:
    own = log / f"default.{os.uname().nodename}.log"
    wait_until(lambda: own.exists() and "page: http" in own.read_text(), "the page")
    found = re.search(r"page: http://([^/]+)/", own.read_text())
    assert found
    return found[1], (log / "dashboard.token").read_text().strip()


def _files_of_page(host: str, token: str) -> list[str]:
    """The page, what it names, and what those files import."""
    found, waiting = [], [""]
    while waiting:
        path = waiting.pop()
        found.append(path)
        names = re.findall(r'(?:href|src|from) ?=?"(?:\./)?([\w.]+)"', _get(host, token, path).decode())
        waiting += [name for name in names if name not in found and name not in waiting]
    return found


def _get(host: str, token: str, path: str) -> bytes:
    with closing(http.client.HTTPConnection(host, timeout=30)) as connection:
        connection.request("GET", f"/{path}", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise Broken(f"/{path}: {answer.status}")
        return answer.read()


def _watch(host: str, token: str, seconds: float) -> None:
    """As a browser does: the stream, and now and then the rest."""
    with closing(http.client.HTTPConnection(host, timeout=30)) as connection:
        connection.request("GET", "/api/stream", headers={"Authorization": f"Bearer {token}"})
        stream, until = connection.getresponse(), time.monotonic() + seconds
        polled = 0
        while time.monotonic() < until and (line := stream.readline()):
            if line.startswith(b"data: "):
                polled += 1
                for path in DATA if polled % 3 == 0 else ():
                    _get(host, token, path)
