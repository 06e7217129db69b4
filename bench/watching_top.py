"""The CPU time of a node with 64 workers while `flota top` watches it, in a pseudo-terminal, compared with one that is
not watched; and that of `flota top` itself. All are measured at the same time.
"""

from __future__ import annotations

import os
import pty
import signal
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from bench import environments
from bench.harness import FLOTA, WORKERS, sleeping_job
from bench.processes import Broken, cpu_used
from bench.table import Row

RANKS = 64
SETTLING, WATCHED = 10.0, 30.0  # seconds
BAR, OWN_BAR = 0.5, 3.0  # percent: of the node, and of `flota top` itself
SCRIPT = WORKERS / "note_and_train_slowly.py"
LEAST_BYTES = 1000 * WATCHED / 10  # of a view that works


def measure() -> list[Row]:
    with ExitStack() as stack:
        pids = {}
        for name in ("watched", "unwatched"):
            pid, job = stack.enter_context(sleeping_job(FLOTA, RANKS, "--console", "none", script=SCRIPT))
            job.wait_for(attempt=0)
            pids[name] = {pid}
        view, drawn = stack.enter_context(watching(*pids["watched"]))
        pids["view"] = {view}
        time.sleep(SETTLING)
        before = drawn[0]
        used = cpu_used(pids, WATCHED)
        if drawn[0] - before < LEAST_BYTES:
            raise Broken(f"flota top has drawn only {drawn[0] - before} bytes in {WATCHED:.0f} s")
    percent = {name: 100 * seconds / WATCHED for name, seconds in used.items()}
    more = percent["watched"] - percent["unwatched"]
    return [
        Row(
            f"CPU of a node over {WATCHED:.0f} s, {RANKS} workers, watched by flota top",
            f"{percent['watched']:.4f} %",
            ratio=f"{more:+.4f} % vs. unwatched",
            bar=f"<= {BAR} % more",
            met=more <= BAR,
            plain=f"{percent['unwatched']:.4f} %",
        ),
        Row(
            f"CPU of flota top itself, {RANKS} workers, 200x50",
            f"{percent['view']:.1f} %",
            ratio="-",
            bar=f"<= {OWN_BAR:.0f} %",
            met=percent["view"] <= OWN_BAR,
        ),
    ]


@contextmanager
def watching(job: int) -> Iterator[tuple[int, list[int]]]:
    """Run the view of a job. Yields its pid, and a list with the number of bytes that it has drawn."""
    words = [str(environments.BENCH / "bin" / "flota"), "top", "--job", str(job)]
    pid, terminal = pty.fork()
    if pid == 0:
        termios.tcsetwinsize(0, (50, 200))
        os.execve(words[0], words, {**os.environ, "TERM": "xterm-256color"})
    drawn = [0]

    def read() -> None:
        try:
            while data := os.read(terminal, 65536):
                drawn[0] += len(data)
        except OSError:
            pass  # the view has ended

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield pid, drawn
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        thread.join()
        os.close(terminal)
