"""A lab for manual use: `python -m tests.lab up 3`, then `run 1`, `cut 2`, `heal`, and finally `down`.

`up` leaves a process running that holds the lab and receives commands on a socket. To use more than one lab, set the
variable LAB to a name.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.lab import Lab, kernel, missing

USAGE = """\
up COUNT                    create hosts 1 to COUNT
run HOST [COMMAND …]        run a command on a host, or a shell
cut HOST [carrier=1]        drop all packets, or unplug the cable
partition 1,2 3,4           a switch for each group
heal [HOST …]               undo cut and partition
shape HOST [delay_ms=20] [jitter_ms=3] [loss_percent=1] [rate_mbit=100]
unshape HOST
crash HOST                  kill every process on a host
down                        remove the lab"""
ADDRESS = Path("/run", f"flota-lab.{os.environ.get('LAB', 'lab')}")
FAULTS = ("cut", "partition", "heal", "shape", "unshape", "crash")


def main(words: list[str]) -> str | None:
    """Returns an error message, or None."""
    match words:
        case ["up", count]:
            return missing() or up(count)
        case ["hold", count]:
            hold(int(count))
            return None
        case ["run", host, *command]:
            return run(host, command or [os.environ.get("SHELL", "sh")])
        case [word, *_] if word in ("down", *FAULTS):
            return ask(*words)[1]
    return USAGE


def up(count: str) -> str | None:
    if ask("heal")[1] is None:
        return "a lab is already running: python -m tests.lab down"
    ADDRESS.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "tests.lab", "hold", count]
    holder = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    assert holder.stdout
    sys.stdout.write(holder.stdout.read().decode())  # until it closes the pipe, or exits
    return None if ADDRESS.exists() else "the lab could not be created"


def hold(count: int) -> None:
    os.umask(0o077)
    with Lab(count) as lab, socket.socket(socket.AF_UNIX) as server:
        server.bind(str(ADDRESS))
        server.listen()
        for host in lab.hosts:
            print(host.name, host.address, host.address6)
        sys.stdout.flush()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        serve(lab, server)
    ADDRESS.unlink()


def serve(lab: Lab, server: socket.socket) -> None:
    while True:
        client, _ = server.accept()
        with client:
            words = client.makefile().readline().split()
            if words == ["down"]:
                lab.close()
                client.sendall(b"done\n")
                return
            try:
                answer = f"done {act(lab, words) or ''}"
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            client.sendall(answer.encode() + b"\n")


def act(lab: Lab, words: list[str]) -> str | None:
    name, *rest = words
    options = {word.partition("=")[0]: float(word.partition("=")[2]) for word in rest if "=" in word}
    groups = [[int(number) for number in word.split(",")] for word in rest if "=" not in word]
    if name == "where":
        return f"/proc/{os.getpid()}/task/{lab.host(groups[0][0]).thread}/ns"
    assert name in FAULTS, name
    getattr(lab, name)(*(groups if name == "partition" else [group[0] for group in groups]), **options)
    return None


def ask(*words: str) -> tuple[str, str | None]:
    """The answer of the process that holds the lab, and an error message or None."""
    with socket.socket(socket.AF_UNIX) as holder:
        try:
            holder.connect(str(ADDRESS))
        except OSError:
            return "", "no lab is running: python -m tests.lab up 3"
        holder.sendall(" ".join(words).encode() + b"\n")
        answer = holder.makefile().readline().strip()
    done, _, rest = answer.partition(" ")
    return (rest, None) if done == "done" else ("", answer)


def run(host: str, command: list[str]) -> str | None:
    namespaces, error = ask("where", host)
    if error:
        return error
    here = os.getcwd()
    for kind in ("net", "uts", "mnt"):
        kernel.enter(f"{namespaces}/{kind}")
    os.chdir(here)  # a new mount namespace starts at /
    os.environ["HOSTNAME"] = socket.gethostname()
    try:
        os.execvp(command[0], command)
    except OSError as failure:
        return f"{command[0]}: {failure.strerror}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
