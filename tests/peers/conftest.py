"""Runs commands in a framework's environment, and kills all processes that they leave."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from .environments import PEERS

SCRIPTS = Path(__file__).parent / "scripts"
PR_SET_CHILD_SUBREAPER = 36
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR")


class Ended(NamedTuple):
    """A command that has exited, and the processes that it left."""

    code: int
    out: str
    err: str
    left: list[str]


class Peer:
    """A framework's environment, and a directory to run its commands in."""

    def __init__(self, name: str, directory: Path) -> None:
        self.bin = PEERS / name / "bin"
        self.directory = directory
        if not (self.bin / "flota").exists():
            pytest.fail(f"no environment .peers/{name}: run make peers", pytrace=False)

    def flota(self, *words: str, **environ: str) -> Ended:
        """Run a job that must succeed and leave no process."""
        ended = self.run("flota", *words, **environ)
        assert ended.code == 0, ended.err + ended.out
        assert ended.left == []
        return ended

    def run(self, program: str, *words: str, **environ: str) -> Ended:
        return run([str(self.bin / program), *words], self.directory, **environ)

    def said(self, rank: int, log_dir: str = "log", role: str = "worker") -> str:
        return (self.directory / log_dir / f"{role}log.{rank}").read_text()

    def results(self, rank: int, log_dir: str = "log", role: str = "worker") -> list[str]:
        return results(self.said(rank, log_dir, role))

    def report(self) -> dict:
        return json.loads((self.directory / "log" / "report.json").read_text())


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The loss of checkpointed.py after this many steps on this machine, without any fault."""

    @cache
    def train(steps: int) -> str:
        torch = Peer("torch", tmp_path_factory.mktemp("undisturbed"))
        torch.flota("--nproc_per_node", "2", script("checkpointed.py"), ".", "--steps", str(steps))
        [result] = torch.results(0)
        return fact(result, "loss")

    return train


def script(name: str) -> str:
    return str(SCRIPTS / name)


def results(said: str) -> list[str]:
    """The lines in which a script prints its results."""
    return [line for line in said.splitlines() if line.startswith("RESULT ")]


def fact(result: str, name: str) -> str:
    """One value of a result such as `RESULT rank=0 loss=0.5`."""
    return dict(word.split("=") for word in result.split()[1:])[name]


def run(command: list[str], directory: Path, *, timeout: float = 120, **environ: str) -> Ended:
    """Run a command in an almost empty environment: variables of the shell must not affect a test."""
    env = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    collect_orphans()
    before = living_descendants()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            command, cwd=directory, env=env | environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        late = False
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            # Also if the test itself is interrupted.
            left = end_all_but(before)
            process.wait()
        ended = Ended(process.returncode, everything(out), everything(err), left)
    assert not late, f"{command} still ran after {timeout} s\n{ended.err}{ended.out}"
    return ended


def everything(file) -> str:
    file.seek(0)
    return file.read()


def collect_orphans() -> None:
    """Make orphaned descendants children of this process, so that they can be found and killed."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_all_but(spared: dict[int, str]) -> list[str]:
    """Kill all other descendants. Returns their commands."""
    found: dict[int, str] = {}
    deadline = time.monotonic() + 20
    while left := {pid: command for pid, command in living_descendants().items() if pid not in spared}:
        assert time.monotonic() < deadline, f"cannot kill {left}"
        found |= left
        for pid in left:
            kill(pid)
    return list(found.values())


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def living_descendants() -> dict[int, str]:
    """All descendants of this process that are alive, with their commands."""
    parents = living_processes()
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return {pid: command_of(pid) for pid in below - {os.getpid()}}


def living_processes() -> dict[int, int]:
    """The parent of every process that is not a zombie."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name is in parentheses and may itself contain parentheses.
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has exited in the meantime
        if state != "Z":
            parents[int(stat.parent.name)] = int(parent)
    return parents


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").strip()
    except OSError:
        return "?"
