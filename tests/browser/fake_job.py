"""A job of any size that exists only as answers of its nodes, for the page."""

from __future__ import annotations

import json
import math
import random
import time
from datetime import UTC, datetime
from functools import partial

from flota.control.client import JobAnswer
from flota.control.status import JobStatus, NodePlace, NodeStatus, RankStatus, RestartStatus, SlowStatus

AGE = 5000.0  # seconds
PACE = 0.76  # seconds per step
ROUNDS = ((0, 1), (1, 930), (2, 2700))  # with the seconds at which they started
MOST_NODES = 8  # that have events


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

    def working_node(self) -> FakeJob:
        return self

    def another(self) -> FakeJob:
        return self

    def node(self, place: NodePlace) -> FakeJob | FakeNode:
        return self if place.seat == 0 else FakeNode(self, place.seat)

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
            slow=slow, spares=(NodePlace(-1, self.host(self.nodes)),),
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
        step = int((now - self.began) / PACE)
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
            round((40 if rank in self.slow else 88) + 8 * chance.random()),
        )

    def events_from(self, offset: int, most: int, seat: int = 0) -> tuple[int, bytes]:
        """Of the first nodes only: those of a thousand ranks would take long."""
        if offset > 0 or seat >= MOST_NODES:
            return max(0, offset), b""
        ranks = range(seat * self.per_node, (seat + 1) * self.per_node)
        events = [("job_started", 0, {"pid": 1, "began": 1000.0})]
        for number, at in ROUNDS:
            facts = {"round": number, "attempt": min(number, 1), "nodes": self.nodes}
            events += [("round_started", at, {**facts, "workers": self.nodes * self.per_node})]
            events += [("worker_started", at, {"rank": rank, "pid": 5000 + rank}) for rank in ranks]
        events += [
            ("worker_exited", 898, {"rank": rank, "code": int(rank == 7), "asked_to_stop": rank != 7}) for rank in ranks
        ]
        events += [("hang_found", 1900, {"suspects": [12]})] if seat == 0 else []
        events += [("worker_exited", 2650, {"rank": rank, "code": -9, "asked_to_stop": True}) for rank in ranks]
        events += [("progress", at, {"ranks": self._records(ranks, at)}) for at in range(10, int(AGE), 40)]
        lines = [
            {
                "time": datetime.fromtimestamp(self.began + at, UTC).isoformat(),
                "monotonic": 1000.0 + at,
                "flota_pid": 4000 + seat,
                "event": name,
                "node": self.host(seat),
                **facts,
            }
            for name, at, facts in sorted(events, key=lambda one: one[1])
        ]
        return 0, b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    def _records(self, ranks: range, at: float) -> list[dict[str, object]]:
        """What a node has recorded of its ranks, which take a tenth of the time for checkpoints."""
        began = max(started for _, started in ROUNDS if started <= at)
        first, passed = began + 8, max(0, at - began - 8)
        known = [self._rank(rank, rank, self.began + at) for rank in ranks]
        return [
            {
                "rank": one.rank,
                "opened": 1000.0 + first,
                "first_at": 1000.0 + first,
                "first_step": int(first / PACE),
                "last_step": one.step,
                "last_at": 1000.0 + at,
                "step_seconds": 0.9 * passed,
                "total": one.total,
                "seconds": one.step_seconds,
                "numbers": one.numbers,
                "phases": {"checkpoint": 0.1 * passed},
            }
            for one in known
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
    """Another node than the first."""

    def __init__(self, job: FakeJob, seat: int) -> None:
        self.log_from, self.act = job.log_from, job.act
        self.events_from = partial(job.events_from, seat=seat)
