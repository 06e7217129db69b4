"""`flota stack`: reads the stacks of a running job, whose workers are found in its events file."""

import os
import socket
import struct
import time
from collections.abc import Callable, Mapping

from flota.errors import NoRunningJob, NoSuchRank, PySpyMissing, StacksUnreadable
from flota.hangs.capture import SampleSet, StackTaker, text_of, with_positions
from flota.hangs.question import POSITIONS
from flota.hangs.suspects import groups_in_words, snapshot_in_words
from flota.hangs.wait_sites import RankPosition
from flota.host.kill_tree import stat_fields
from flota.host.loop import Loop
from flota.job.printable import printable
from flota.job.roles import TRAINER
from flota.logs.directory import read_end
from flota.logs.parse_events import MOST_EVENTS, is_count, parse_object

Header = Callable[[int, list[RankPosition]], tuple[str, ...]]  # from the node's pid (0: do not ask it) and its workers

POLL_INTERVAL = 0.1  # seconds
ANSWER_TIME = 15.0  # seconds for all nodes to answer
LARGEST = 1 << 16  # bytes of an answer, which is a few lines in one message
MOST_FORKS = 8  # levels of processes between a node and a worker


class StackReader:
    """`ranks`: those to show; empty: all."""

    def __init__(self, log_dir: str, environ: Mapping[str, str], ranks: tuple[int, ...], *, native: bool) -> None:
        self.log_dir = log_dir
        self.ranks = ranks
        self.native = native
        self.loop = Loop()
        self.taker = StackTaker(environ, self.loop)
        if not self.taker.spy:
            raise PySpyMissing

    def ask(self, header: Header) -> tuple[tuple[str, ...], str]:
        """The header and what each rank is waiting on, and the same with all stacks."""
        node, workers = running_workers(self.log_dir)
        if not workers:
            raise NoRunningJob(self.log_dir)
        if self.ranks:
            node, workers = 0, self._chosen(workers)
        taken = self._take(workers)
        if taken.blind:
            raise StacksUnreadable(taken.trouble or "the workers have just exited")
        positions = with_positions(workers, taken.samples)
        here = groups_in_words(positions) if self.ranks else snapshot_in_words(positions)
        words = (*header(node, workers), *(ask_whole_job(node, POSITIONS) or here))
        return words, text_of(f"flota: {self.log_dir}", words, positions, taken.samples)

    def _chosen(self, workers: list[RankPosition]) -> list[RankPosition]:
        here = {one.rank: one for one in workers if one.role == TRAINER}
        for rank in self.ranks:
            if rank not in here:
                raise NoSuchRank(rank, ", ".join(map(str, sorted(here))))
        return [one for rank, one in here.items() if rank in self.ranks]

    def _take(self, workers: list[RankPosition]) -> SampleSet:
        taken: list[SampleSet] = []
        self.taker.take(workers, taken.append, all_children=True, native=self.native)
        while not taken:
            self.loop.turn(POLL_INTERVAL)
            self.taker.on_time(time.monotonic())
        return taken[0]


def address_of(node: int) -> bytes:
    """The abstract socket address of a node's RequestSocket. The PID namespace is part of it, because another container
    may have a process with the same pid."""
    return b"\0flota-%d-%d" % (os.stat("/proc/self/ns/pid").st_ino, node)


def ask_whole_job(node: int, kind: str) -> tuple[str, ...]:
    """Ask all nodes of a job this question, through the node on this machine (0: none). Empty for a job of one node."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(ANSWER_TIME)
        try:
            client.connect(address_of(node))
            if peer_of(client)[0] != node:
                return ()  # another process uses this address
            client.send(f"{kind}\n".encode())
            text = client.recv(LARGEST)
        except OSError:
            return ()  # a job of one node, or one that has just ended
    return tuple(printable(line) for line in text.decode(errors="replace").splitlines())


def peer_of(connected: socket.socket) -> tuple[int, int]:
    """The pid and the user of the process at the other end of a Unix socket."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, user, _ = struct.unpack("3i", credentials)
    return pid, user


def running_workers(log_dir: str) -> tuple[int, list[RankPosition]]:
    """The pid of the node on this machine whose job logs to this directory, and its workers, from its events file."""
    nodes: set[int] = set()
    workers: dict[tuple[str, int], int] = {}
    for line in read_end(f"{log_dir}/events.{os.uname().nodename}.jsonl", MOST_EVENTS).splitlines():
        _note_event(line, nodes, workers)
    above = {pid: _node_above(pid, nodes) for pid in workers.values()}
    living = [(role, rank, pid) for (role, rank), pid in sorted(workers.items()) if above[pid]]
    return max(above.values(), default=0), [
        RankPosition(rank, "", "", role, worker=number, pid=pid) for number, (role, rank, pid) in enumerate(living)
    ]


def _note_event(line: bytes, nodes: set[int], workers: dict[tuple[str, int], int]) -> None:
    event = parse_object(line)  # empty for an incomplete line, which is being written
    name, role = event.get("event"), event.get("role", TRAINER)
    pid, rank = event.get("pid"), event.get("rank")
    if name == "job_started" and is_count(pid):
        nodes.add(pid)
    if not isinstance(role, str) or not is_count(rank):
        return
    if name == "worker_started" and is_count(pid):
        workers[role, rank] = pid
    elif name == "worker_exited":
        workers.pop((role, rank), None)


def _node_above(pid: int, nodes: set[int]) -> int:
    """The node from which a worker descends. 0: none, so its pid has been reused by another process."""
    for _ in range(MOST_FORKS):
        status = stat_fields(pid)
        pid = int(status[1]) if len(status) > 1 else 0
        if not pid or pid in nodes:
            return pid
    return 0
