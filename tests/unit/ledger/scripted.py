"""Events of a node, as it writes them, at times that a test chooses."""

from __future__ import annotations

from flota.ledger.history import SECOND, read_node
from flota.ledger.ledger import Ledger, RankLedger, make_ledger


class Node:
    """`start(10, 0)`: rank 0 has started at 10 s."""

    def __init__(self, name: str = "a", *, nodes: int = 0) -> None:
        self.name = name
        self.nodes = {"nodes": nodes} if nodes else {}
        self.events: list[dict[str, object]] = []

    def add(self, at: float, event: str, /, **facts: object) -> None:
        self.events.append({"monotonic": 1000.0 + at, "event": event, "node": self.name, "job_id": "j", **facts})

    def begin(self, at: float, *, began: float = 0.0, workers: int = 2) -> None:
        self.add(at, "job_started", world_size=workers, pid=7, began=1000.0 + began)
        self.round(at, 0, workers=workers)

    def round(self, at: float, number: int, *, workers: int = 2) -> None:
        self.add(at, "round_started", round=number, attempt=number, workers=workers, **self.nodes)

    def start(self, at: float, *ranks: int, **facts: object) -> None:
        for rank in ranks:
            self.add(at, "worker_started", rank=rank, pid=100 + rank, at=1000.0 + at, **facts)

    def exit(self, at: float, rank: int, code: int = 0, *, asked: bool = False, **times: object) -> None:
        role = {"role": times.pop("role")} if "role" in times else {}
        facts = {"times": clocked(times)} if times else {}
        self.add(at, "worker_exited", rank=rank, code=code, asked_to_stop=asked, at=1000.0 + at, **facts, **role)

    def progress(self, at: float, rank: int, **times: object) -> None:
        self.add(at, "progress", ranks=[{"rank": rank, **clocked(times)}])

    def end(self, at: float) -> None:
        self.add(at, "job_ended", verdict="succeeded")

    def read(self, now: float | None = None):
        return read_node(self.events, now=None if now is None else 1000.0 + now)


def clocked(times: dict[str, object]) -> dict[str, object]:
    """Times of the page are on the monotonic clock, as those of events."""
    return {
        name: 1000.0 + value if name == "opened" or name.endswith("_at") else value for name, value in times.items()
    }


def ledger_of(*nodes: Node, now: float | None = None) -> Ledger:
    return make_ledger([node.read(now) for node in nodes])


def seconds(row: RankLedger | Ledger) -> dict[str, float]:
    return {name: amount / SECOND for name, amount in row.spent.items()}
