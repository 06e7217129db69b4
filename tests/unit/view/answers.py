"""Answers of jobs that do not exist, and a job that gives them."""

from __future__ import annotations

import copy
import time

from flota.control.client import JobAnswer
from flota.control.status import (
    RUNNING,
    VERSION,
    JobStatus,
    LogStatus,
    NodeLogs,
    NodePlace,
    NodeStatus,
    RankStatus,
    RestartStatus,
    SlowStatus,
)
from flota.errors import CannotAsk

BEGAN = 1_800_000_000.0
PER_NODE = 8
SLOW = 5  # the rank whose steps take twice as long
LINES = [f"step {number}: loss 0.{999 - number:03d}" for number in range(300)]


def answer(ranks: int, second: int = 60, **facts: object) -> JobAnswer:
    """A job that has been running for some seconds, with eight ranks per node."""
    nodes = tuple(node(seat, min(PER_NODE, ranks - seat * PER_NODE), second) for seat in range(-(-ranks // PER_NODE)))
    job = {
        "job_id": "llama",
        "state": RUNNING,
        "round": 1,
        "attempt": 1,
        "restart_limit": 3,
        "began": BEGAN,
        "now": BEGAN + second,
        "world_size": ranks,
        "log_dir": "/data/llama/log",
        "directory": "/data/llama",
        "nodes": tuple(NodePlace(one.seat, one.host) for one in nodes),
        "restarts": (RestartStatus(0, BEGAN + 20, "rank 1 FileNotFoundError"),),
        "slow": (SlowStatus(SLOW, "gpu01", 2.0),) if ranks > SLOW else (),
    }
    missing = facts.pop("missing", ())
    answered = tuple(one for one in nodes if one.host not in dict(missing))
    return JobAnswer(JobStatus(VERSION, **{**job, **facts}), answered, missing)


def node(seat: int, ranks: int, second: int) -> NodeStatus:
    host = f"gpu{seat + 1:02d}"
    return NodeStatus(host, 100 + seat, seat, ranks=tuple(rank(seat * PER_NODE + one, second) for one in range(ranks)))


def rank(number: int, second: int) -> RankStatus:
    seconds = 1.0 if number == SLOW else 0.5 + number % 7 / 100
    return RankStatus(
        number,
        local_rank=number % PER_NODE,
        devices=(str(number % PER_NODE),),
        pid=1000 + number,
        state=RUNNING,
        step=2 * second,
        total=5000,
        step_seconds=seconds,
        heartbeat=0.2,
        numbers={"loss": 2.0 / (second + 1)},
        cpu=second * 0.5,
        memory=(1 << 30) + number * (1 << 24),
        logs=(f"/data/llama/log/workerlog.{number}",),
    )


def log_of(role: str, number: int) -> bytes:
    return f"the log of {role} {number}\n".encode() + "\n".join(LINES).encode() + b"\n"


class FakeJob:
    """Gives one answer after another, then the last again and again. It is also its only node."""

    where, pid = "gpu01:4000", 0

    def __init__(self, *answers: JobAnswer) -> None:
        self.entry = self
        self.asked = 0
        self.acted: list[str] = []
        self._answers = answers

    def another(self) -> FakeJob:
        other = copy.copy(self)
        other.entry = other
        return other

    def client_of(self, seat: int) -> FakeJob:
        return self

    def working_node(self) -> FakeJob:
        return self

    def use_another_entry(self) -> bool:
        return False

    def status(self) -> JobAnswer:
        self.asked += 1
        found = self._answers[min(self.asked, len(self._answers)) - 1]
        if found is None:
            raise CannotAsk(self.where, "connection refused")
        return found

    def logs(self, *, follow: bool) -> NodeLogs:
        ranks = [rank for node in self._answers[0].nodes for rank in node.ranks]
        logs = [(one, len(log_of(one.role, one.rank))) for one in ranks]
        listed = tuple(LogStatus(one.rank, one.role, 0, one.logs[0], ((1, size),)) for one, size in logs)
        return NodeLogs("gpu01", 0, RUNNING, 0, time.time(), listed)

    def log_part(self, role: str, number: int, _file: int, place: tuple[int, int], limit: int) -> bytes:
        return log_of(role, number)[place[1] : place[1] + limit]

    def ask_job(self, kind: str, seconds: float) -> tuple[str, ...]:
        return (f"{kind}: ranks 0-3 wait in all_reduce",)

    def act(self, verb: str) -> str:
        self.acted.append(verb)
        return f"{verb}: done"

    def close(self) -> None:
        pass
