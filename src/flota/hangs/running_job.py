"""`flota stack`: reads the stacks of a running job, whose workers are found in its events file."""

import os
import time
from collections.abc import Callable, Mapping

from flota.errors import NoRunningJob, NoSuchRank, PySpyMissing, StacksUnreadable
from flota.hangs.capture import SampleSet, StackTaker, text_of, with_positions
from flota.hangs.question import POSITIONS
from flota.hangs.suspects import groups_in_words, snapshot_in_words
from flota.hangs.wait_sites import RankPosition
from flota.host.kill_tree import stat_fields
from flota.host.loop import Loop
from flota.job.roles import TRAINER
from flota.logs.directory import read_end
from flota.logs.parse_events import MOST_EVENTS, is_count, parse_object

Header = Callable[[int, list[RankPosition]], tuple[str, ...]]  # from the node's pid (0: do not ask it) and its workers
AskJob = Callable[[int, str], tuple[str, ...]]  # all nodes, through the node with this pid; empty for a job of one node

POLL_INTERVAL = 0.1  # seconds
MOST_FORKS = 8  # levels of processes between a node and a worker


class StackReader:
    """`ranks`: those to show; empty: all."""

    def __init__(self, log_dir: str, environ: Mapping[str, str], ranks: tuple[int, ...], *, native: bool) -> None:
        self.log_dir = log_dir
        self.ranks = ranks
        self.native = native
        self.positions: tuple[RankPosition, ...] = ()  # of the last answer, on this machine
        self.loop = Loop()
        self.taker = StackTaker(environ, self.loop)
        if not self.taker.spy:
            raise PySpyMissing

    def ask(self, header: Header, ask_job: AskJob) -> tuple[tuple[str, ...], str]:
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
        words = (*header(node, workers), *(ask_job(node, POSITIONS) or here))
        self.positions = positions
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
