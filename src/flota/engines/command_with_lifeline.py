"""Runs a command that is asked to stop when the process that wants it is gone, as a program of its own.

Standard input is the lifeline. It begins with one line of JSON that describes the command. Each byte after that is a
signal for the command, and the end of input is SIGTERM. If this process is killed, the kernel sends SIGTERM.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess

from flota import libc

PR_SET_PDEATHSIG = 1


def describe_command(words: list[str], directory: str, variables: dict[str, str | None]) -> bytes:
    """The first line of the lifeline. `variables`: changes to the environment; None removes a variable."""
    return json.dumps({"words": words, "directory": directory, "variables": variables}).encode() + b"\n"


def run() -> int:
    command = json.loads(_read_line())
    for name, value in command["variables"].items():
        os.putenv(name, value) if value is not None else os.unsetenv(name)
    this = os.getpid()
    process = subprocess.Popen(
        command["words"],
        cwd=command["directory"],
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: _stop_with_parent(this),  # noqa: PLW1509  this process has one thread
    )
    ended = os.pidfd_open(process.pid)
    watched = [ended, 0]
    while ended not in (ready := select.select(watched, [], [])[0]):
        sent = os.read(ready[0], 1)
        process.send_signal(sent[0] if sent else signal.SIGTERM)
        if not sent:
            watched = [ended]
    code = process.wait()
    return code if code >= 0 else 128 - code


def _read_line() -> bytes:
    """Byte by byte: what follows the line must stay in the pipe."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return line


def _stop_with_parent(parent: int) -> None:
    libc.call("prctl", PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    raise SystemExit(run())
