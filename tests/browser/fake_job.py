"""A job of any size that exists only as answers of its nodes, for the page."""

from __future__ import annotations

import json
import math
import random
import time
from datetime import UTC, datetime

from flota.control.client import JobAnswer
from flota.control.status import JobStatus, NodePlace, NodeStatus, RankStatus, RestartStatus, SlowStatus

AGE = 5000.0  # seconds


class FakeJob:
    """Stands in for JobClient, and for the NodeClient of each node. `texts`: foreign texts, by the place they are in."""

    pid = 0

    def __init__(self, nodes: int, ranks: int, texts: dict[str, str] | None = None) -> None:
        self.nodes, self.per_node = nodes, ranks // nodes
        self.texts = {
            "job": "llama-7b",
            "host": "gpu{:02d}",
            "reason": "rank 7 RuntimeError",
            "line": "",
            "number": "grad_norm",
            "stack": "",
            **(texts or {}),
        }
        self.began = time.time() - AGE
        self.acts: list[str] = []
        self.slow = {3, ranks // 2 + 1} if ranks > 3 else set()
        self.entry = self

    def another(self) -> FakeJob:
        return self

    def node(self, place: NodePlace) -> FakeJob | FakeNode:
        return self if place.seat == 0 else FakeNode(self)

    def host(self, seat: int) -> str:
        return self.texts["host"].format(seat + 1)

    def status(self) -> JobAnswer:
        now = time.time()
        places = tuple(
            NodePlace(n, self.host(n), f"10.0.0.{n + 1}", f"http://10.0.0.{n + 1}:41000") for n in range(self.nodes)
        )
        slow = tuple(SlowStatus(one, self.host(one // self.per_node), 1.8) for one in sorted(self.slow))
        job = JobStatus(
            *(1, self.texts["job"], "running", 2, 1, 3, self.began, now, self.nodes * self.per_node),
            log_dir="/data/runs/llama-7b/2026-11-18", directory="/data", command=("train.py", "--config", "7b.yaml"),
            nodes=places, restarts=(RestartStatus(0, self.began + 900, self.texts["reason"]), RestartStatus(1, self.began + 2600, "node gpu02 lost", lost=("gpu02",))),
            slow=slow,
        )  # fmt: skip
        return JobAnswer(job, tuple(self._node(seat, now) for seat in range(self.nodes)))

    def _node(self, seat: int, now: float) -> NodeStatus:
        ranks = tuple(self._rank(seat * self.per_node + local, local, now) for local in range(self.per_node))
        return NodeStatus(
            self.host(seat),
            4000 + seat,
            seat,
            "running",
            f"10.0.0.{seat + 1}",
            96,
            60 + 9 * math.sin(seat),
            1 << 40,
            int((0.4 + 0.3 * math.sin(seat) ** 2) * (1 << 40)),
            ranks,
        )

    def _rank(self, rank: int, local: int, now: float) -> RankStatus:
        chance = random.Random(f"{rank} {int(now)}")
        seconds = (0.42 + 0.03 * chance.random() + 0.02 * math.sin(rank)) * (1.8 if rank in self.slow else 1)
        step = int((now - self.began) / 0.76)
        loss = 1.8 + 6 * math.exp(-step / 1500) + 0.06 * chance.random()
        numbers = {"loss": loss, self.texts["number"]: 0.8 + 0.3 * chance.random()}
        return RankStatus(
            rank,
            "trainer",
            local,
            (str(local),),
            5000 + rank,
            "running",
            None,
            self.began,
            step,
            12000,
            seconds,
            0.2,
            numbers,
            (now - self.began) * (1 + 0.3 * math.sin(rank)),
            (18 << 30) + (rank << 22),
            (f"workerlog.{rank}",),
        )

    def events_from(self, offset: int, most: int) -> tuple[int, bytes]:
        if offset > 0:
            return offset, b""
        round_ = {"attempt": 0, "nodes": self.nodes, "workers": self.nodes * self.per_node}
        events = [("job_started", 0, {"pid": 1}), ("round_started", 1, {"round": 0, **round_})]
        events += [
            ("worker_exited", 898, {"rank": 7, "code": 1}),
            ("round_started", 930, {"round": 1, **round_, "attempt": 1}),
            ("hang_found", 1900, {"suspects": [12]}),
            ("round_started", 2700, {"round": 2, **round_, "attempt": 1}),
        ]
        events += [("progress", at, {"ranks": self._records(at)}) for at in range(10, int(AGE), 20)]
        lines = [
            {
                "time": datetime.fromtimestamp(self.began + at, UTC).isoformat(),
                "monotonic": 1000.0 + at,
                "flota_pid": 4000,
                "event": name,
                "node": self.host(0),
                **facts,
            }
            for name, at, facts in sorted(events, key=lambda one: one[1])
        ]
        return 0, b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    def _records(self, at: float) -> list[dict[str, object]]:
        """What the node has recorded of its ranks."""
        statuses = [self._rank(rank, rank, self.began + at) for rank in range(self.per_node)]
        return [
            {
                "rank": one.rank,
                "last_step": one.step,
                "total": one.total,
                "seconds": one.step_seconds,
                "numbers": one.numbers,
            }
            for one in statuses
        ]

    def log_from(self, role: str, rank: int, file: int, offset: int, most: int) -> tuple[int, bytes]:
        if offset > 0:
            return offset, b""
        lines = [
            f"===== flota: job x, round 2, attempt 1, rank {rank} of 8, 2026-11-18 04:00:00 =====",
            *self.texts["line"].splitlines(),
        ]
        lines += [
            f"epoch 3 | step {step} | loss {1.8 + 6 * math.exp(-step / 1500):.3f} | 0.43 s/it"
            for step in range(6300, 6560, 20)
        ]
        if rank in self.slow:
            lines.insert(-3, "WARNING: dataloader waits for storage (2.1 s)")
        return 0, "\n".join([*lines, ""]).encode()

    def ask_job(self, kind: str, seconds: float) -> tuple[str, ...]:
        return (
            f"{self.nodes * self.per_node - 1} of {self.nodes * self.per_node} ranks: waiting on a socket in all_reduce at train.py:118",
            "rank 12: asleep in load at data.py:40",
            "if this is a hang: rank 12 blocks the others",
            *self.texts["stack"].splitlines(),
        )

    def act(self, verb: str) -> str:
        self.acts.append(verb)
        return {"stop": "stopping the job", "restart": "restarting all workers", "leave": "this node leaves the job"}[
            verb
        ]


class FakeNode:
    """Another node than the first, which has no events of its own."""

    def __init__(self, job: FakeJob) -> None:
        self.log_from, self.act = job.log_from, job.act

    def events_from(self, offset: int, most: int) -> tuple[int, bytes]:
        return max(0, offset), b""
