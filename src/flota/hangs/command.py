"""Stacks of a running job, for somebody who asks by hand: its workers are found by what it has written."""

from __future__ import annotations

import os
import time

from flota.errors import NoRunningJob, NoSpy, NoSuchRank, StacksUnreadable
from flota.hangs.capture import StackTaker, Subject, Taken, page, positions_of
from flota.hangs.pyspy import Spy, find_spy
from flota.hangs.question import POSITIONS
from flota.hangs.suspects import find_suspects, groups_in_words, suspicion
from flota.host.kill_tree import stat_fields
from flota.host.loop import Loop
from flota.job.roles import TRAINER
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from socket import socket
    from typing import Any

    Header = Callable[[int, list[Subject]], tuple[str, ...]]  # from the node's pid (0: do not ask it) and the workers

LOOK_AGAIN = 0.1  # seconds between looks at the clock
PATIENCE = 15.0  # seconds for all nodes to answer
LARGEST = 1 << 16  # bytes of an answer: a few lines, sent at once
MOST_FORKS = 8  # between a node and a worker that something else has started again


class Asker:
    def __init__(self, log_dir: str, environ: Mapping[str, str], ranks: tuple[int, ...], *, native: bool) -> None:
        self.log_dir = log_dir
        self.ranks = ranks
        self.native = native
        program = find_spy(environ)
        if not program:
            raise NoSpy
        self.loop = Loop()
        self.spy = Spy(program, self.loop)
        self.taker = StackTaker(self.spy)

    def ask(self, header: Header) -> tuple[tuple[str, ...], str]:
        """What each rank is waiting on, below the lines of a header, and a page of all stacks."""
        subjects = self._subjects()
        taken = self._take(subjects)
        if taken.blind:
            raise StacksUnreadable(taken.trouble or "the workers have just ended")
        positions = positions_of(subjects, taken.samples)
        words = () if self.ranks else ask_whole_job(self._node, POSITIONS)
        if not words:
            words = groups_in_words(positions)
            if len(positions) > 1 and not self.ranks:
                words += (f"if this is a hang: {suspicion(positions, find_suspects(positions))}",)
        words = (*header(0 if self.ranks else self._node, subjects), *words)
        return words, page(f"flota: {self.log_dir}", words, subjects, taken.samples)

    def _subjects(self) -> list[Subject]:
        self._node, found = running_workers(self.log_dir)
        if not found:
            raise NoRunningJob(self.log_dir)
        here = {subject.rank for subject in found if subject.role == TRAINER}
        for rank in self.ranks:
            if rank not in here:
                raise NoSuchRank(rank, ", ".join(map(str, sorted(here))))
        return [one for one in found if not self.ranks or (one.rank in self.ranks and one.role == TRAINER)]

    def _take(self, subjects: list[Subject]) -> Taken:
        taken: list[Taken] = []
        self.taker.take(subjects, taken.append, everybody=True, native=self.native)
        while not taken:
            self.loop.turn(LOOK_AGAIN)
            self.spy.on_time(time.monotonic())
        return taken[0]


def address_of(node: int) -> bytes:
    """Where a node of a job on many machines can be asked: a name without a file, and not that of another container's
    process with the same number."""
    return b"\0flota-%d-%d" % (os.stat("/proc/self/ns/pid").st_ino, node)


def ask_whole_job(node: int, kind: str) -> tuple[str, ...]:
    """What all nodes answer to this question, if the job has several: its node here asks the others."""
    import socket

    with socket.socket(socket.AF_UNIX) as asker:
        asker.settimeout(PATIENCE)
        try:
            asker.connect(address_of(node))
            if peer_of(asker).pid != node:
                return ()  # another process has taken its name
            asker.send(f"{kind}\n".encode())
            text = asker.recv(LARGEST)
        except OSError:
            return ()  # a job on one machine, or one that has just ended
    return tuple(text.decode(errors="replace").splitlines())


class Peer(NamedTuple):
    """The process at the other end of a socket of this machine."""

    pid: int
    user: int
    group: int


def peer_of(connected: socket) -> Peer:
    from socket import SO_PEERCRED, SOL_SOCKET
    from struct import calcsize, unpack

    return Peer(*unpack("3i", connected.getsockopt(SOL_SOCKET, SO_PEERCRED, calcsize("3i"))))


def running_workers(log_dir: str) -> tuple[int, list[Subject]]:
    """The node here of the job that writes here, and its workers, by what events.<node>.jsonl has of them."""
    nodes: set[int] = set()
    workers: dict[tuple[str, int], int] = {}
    for event in _events(log_dir):
        try:
            if event["event"] == "job_started":
                nodes.add(event["pid"])
            elif event["event"] == "worker_started":
                workers[event.get("role", TRAINER), event["rank"]] = event["pid"]
            elif event["event"] == "worker_exited":
                workers.pop((event.get("role", TRAINER), event["rank"]), None)
        except (KeyError, TypeError):
            continue
    above = {pid: _node_above(pid, nodes) for pid in workers.values()}
    living = [(role, rank, pid) for (role, rank), pid in sorted(workers.items()) if above[pid]]
    subjects = [Subject(number, rank, pid, role) for number, (role, rank, pid) in enumerate(living)]
    return max(above.values(), default=0), subjects


def has_ended(log_dir: str) -> bool:
    """Whether the last job that has written here is over; between two rounds it has no workers, and is not."""
    pid = 0
    for event in _events(log_dir):
        if event.get("event") == "job_started":
            pid = int(event.get("pid") or 0)
        elif event.get("event") == "job_ended":
            pid = 0
    return not pid or not os.path.exists(f"/proc/{pid}")


def _events(log_dir: str) -> list[dict[str, Any]]:
    import json

    found = []
    try:
        with open(f"{log_dir}/events.{os.uname().nodename}.jsonl", errors="replace") as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # half a line, of a node that is writing it
                if isinstance(event, dict):
                    found.append(event)
    except OSError:
        pass
    return found


def _node_above(pid: int, nodes: set[int]) -> int:
    """A number may be another process's by now: a worker descends from its node. 0: it does not."""
    for _ in range(MOST_FORKS):
        status = stat_fields(pid)
        pid = int(status[1]) if len(status) > 1 else 0
        if not pid or pid in nodes:
            return pid
    return 0
