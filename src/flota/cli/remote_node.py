"""A node that a launcher starts over ssh: `python -m flota.cli.remote_node`. See engines/ssh_messages.py."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import time
from io import RawIOBase

from flota import __version__
from flota.cli.main import exit_process, main
from flota.engines.ssh_messages import MARK, Detached, Go, Hello, HostAnswer, HostQuestion, decode, encode
from flota.host.addresses import is_loopback, reachable_address

SILENCE = 60  # seconds without a line of the launcher: the end of a connection is not always seen


def run() -> int:
    lifeline = _move_standard_input()
    with open(lifeline, "rb", buffering=0, closefd=False) as stdin:
        os.write(1, MARK + encode(Hello(__version__)))
        line = _next_message(stdin)
        if not line:
            return 0  # the launcher has found a problem
        question = decode(line, HostQuestion)
        port, answer = _answer(question)
        os.write(1, MARK + encode(answer))
        line = _next_message(stdin)
        if port:
            port.close()
        if not line:
            return 0
    signal.alarm(0)
    go = decode(line, Go)
    os.environ.update(go.env)
    os.environ.pop("FLOTA_TOKEN_FILE", None)
    os.environ["FLOTA_TOKEN"] = go.token  # not visible in /proc: that shows the environment of the start
    if go.console:
        pid = _detach(go.console)
        if pid:
            os.write(1, MARK + encode(Detached(pid)))
            return 0
        lifeline = -1
    return main(go.words, interpreter=sys.executable, lifeline=lifeline)


def _next_message(stdin: RawIOBase) -> bytes:
    """Skip the empty lines that the launcher writes while it waits for other hosts."""
    line = b"\n"
    while line == b"\n":
        signal.alarm(SILENCE)  # ends this process
        line = stdin.readline()
    return line


def _move_standard_input() -> int:
    """Nothing else may read what the launcher writes."""
    lifeline = os.dup(0)  # not inherited by other programs
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return lifeline


def _answer(question: HostQuestion) -> tuple[socket.socket | None, HostAnswer]:
    """Check this host. A port of the master is held until the job starts."""
    problems = []
    try:
        os.chdir(question.directory)
    except OSError as error:
        problems.append(f"cannot enter {question.directory}: {error.strerror}")
    else:
        problems += find_problems(question)
    if question.several:
        try:
            import flota.cluster.multi_node  # noqa: F401  also saves time: the job needs it
        except ModuleNotFoundError as error:
            problems.append(f"{sys.executable} has no {error.name}, which flota needs for several machines")
    answer = HostAnswer(problems, time.time())
    if problems or not (question.first and question.several):
        return None, answer
    # The address to which the launcher, or the last jump host, has connected.
    address = os.environ.get("SSH_CONNECTION", "").split(" ")[2:3]
    if not address or is_loopback(address[0]):
        address = [reachable_address()]
    port = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    port.bind((address[0], 0))
    return port, answer._replace(address=address[0], port=port.getsockname()[1])


def find_problems(question: HostQuestion) -> list[str]:
    """Why the script or program of a job cannot be run in the working directory."""
    target = question.target
    if question.kind == "program" and not shutil.which(target):
        return [f"no program {target}"]
    if question.kind != "script":
        return []
    try:
        with open(target, "rb") as file:
            content = file.read()
    except OSError as error:
        return [f"cannot read {target}: {error.strerror}"]
    if question.digest:
        from hashlib import sha256

        if sha256(content).hexdigest() != question.digest:
            return [f"{target} differs from the one here"]
    return []


def _detach(console: str) -> int:
    """Fork a process that does not end with the connection. Returns its pid in the parent, and 0 in the child."""
    os.makedirs(os.path.dirname(console) or ".", exist_ok=True)
    file = os.open(console, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.dup2(file, 1)
        os.dup2(file, 2)
    os.close(file)
    return pid


if __name__ == "__main__":
    exit_process(run())
