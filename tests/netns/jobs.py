"""Jobs of many nodes on the hosts of a lab. Tests control their workers through files, and read what these record."""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import shlex
import socket
import time
from pathlib import Path
from typing import Any, NamedTuple

from flota.store.keys import Keys, end_of
from tests.lab import Lab
from tests.lab.nodes import Node, Nodes
from tests.launching import DEADLINE, wait_until

WORKERS = Path(__file__).parent / "workers"
STANDS_IN, MEETS = WORKERS / "stands_in.py", WORKERS / "meets.py"
HTTP, ETCD = "http", "etcd"
PORT = 8090
LEASE = 5.0
LONG_LEASE = 600  # seconds: a loss that is noticed in a test is not noticed by the end of a lease
names = itertools.count()


def last_words(node: Node) -> str:
    """The last line that a node has printed."""
    return node.err.rstrip().rpartition("\n")[2]


def ask_store(lab: Lab, master: str, path: str, body: object) -> dict[str, Any]:
    """Ask a store from host 1. Returns an empty answer while it is not reachable."""
    host, _, port = master.rpartition("/")[2].partition(":")
    client = http.client.HTTPConnection(host, int(port))
    try:
        client.sock = lab.host(1).call(socket.create_connection, (host, int(port)), 2)
        client.request("POST", path, json.dumps(body))
        answer: dict[str, Any] = json.loads(client.getresponse().read())
    except OSError:
        return {}
    finally:
        client.close()
    return answer


class Worker(NamedTuple):
    """What a worker recorded of its variables."""

    rank: int
    world_size: int
    host: str
    node_rank: int
    local_rank: int


class Round(NamedTuple):
    number: int
    hosts: list[str]  # by rank


class Job:
    """One job. All of its nodes get the same arguments; others are given when a node is started."""

    def __init__(self, lab: Lab, directory: Path, master: str = "", name: str = "") -> None:
        self.lab = lab
        self.name = name or f"job{next(names)}"
        self.stage = directory / self.name
        self.stage.mkdir(parents=True)
        self.nodes = Nodes(lab, self.stage)
        self.master = master
        self.words = ["--master", master, "--job_id", self.name] if master else []

    @property
    def etcd(self) -> bool:
        return self.master.startswith("etcd")

    def again(self) -> Job:
        """Another job with the same name and the same master."""
        return Job(self.lab, self.stage / "again", self.master, self.name)

    def node(
        self, host: int, words: str, script: Path = STANDS_IN, env: dict[str, str] | None = None, **options: Any
    ) -> Node:
        """Start flota on a host."""
        env = {"STAGE": str(self.stage), **(env or {})}
        return self.nodes.start(host, *shlex.split(words), *self.words, script, env=env, **options)

    def start(self, hosts: list[int], words: str, script: Path = STANDS_IN, **options: Any) -> list[Node]:
        return [self.node(host, words, script, **options) for host in hosts]

    # The content of the store.

    def wait_for_records(self, count: int, state: str = "") -> None:
        """Wait until this many records contain `state`: the console reports it only after a while."""
        wait_until(lambda: sum(state in record for record in self._records()) >= count, f"{count} records {state}")

    def _records(self) -> list[str]:
        keys = Keys(f"/flota/{self.name}/" if self.etcd else "/flota/")
        begin, end = (base64.b64encode(key).decode() for key in (keys.nodes, end_of(keys.nodes)))
        found = ask_store(self.lab, self.master, "/v3/kv/range", {"key": begin, "range_end": end})
        return [base64.b64decode(entry["value"]).decode() for entry in found.get("kvs", [])]

    # The workers.

    def finish(self) -> None:
        (self.stage / "finish").touch()

    def fail(self, rank: int, how: int | str = 7) -> None:
        (self.stage / "command").write_text(str(how))
        (self.stage / "command").rename(self.stage / f"fail.{rank}")

    def round(self, number: int, count: int, timeout: float = DEADLINE) -> list[Worker]:
        """Wait until a round has this many workers. Returns them by rank."""
        try:
            wait_until(
                lambda: len(self.notes("worker", number)) >= count, f"{count} workers in round {number}", timeout
            )
        except AssertionError as error:
            error.add_note(str(self))
            raise
        notes = self.notes("worker", number)
        numbers = ("world_size", "node_rank", "local_rank")
        return [
            Worker(rank, host=note["host"], **{name: int(note[name]) for name in numbers})
            for rank, note in notes.items()
        ]

    def rounds(self) -> list[int]:
        """The rounds that had a worker."""
        return sorted({int(path.name.split(".")[1]) for path in self.stage.glob("worker.*.*")})

    def settle(self, count: int, after: int = -1) -> Round:
        """The first round with this many workers. On a slow machine an elastic job may have started with fewer."""
        wait_until(lambda: self._of_size(count, after), f"{count} workers in a round after {after}")
        number = self._of_size(count, after)[0]
        return Round(number, [note["host"] for note in self.notes("worker", number).values()])

    def _of_size(self, count: int, after: int) -> list[int]:
        worlds = {number: self.notes("worker", number).values() for number in self.rounds() if number > after}
        sizes = {number: [int(note["world_size"]) for note in notes] for number, notes in worlds.items()}
        return [number for number, seen in sizes.items() if seen == [count] * count]

    def notes(self, kind: str, number: int) -> dict[int, dict[str, str]]:
        """What the workers of a round have recorded, by rank."""
        notes = {int(path.name.rpartition(".")[2]): path for path in self.stage.glob(f"{kind}.{number}.*")}
        return {rank: json.loads(notes[rank].read_text()) for rank in sorted(notes)}

    def next_round(self, number: int, timeout: float = DEADLINE) -> int:
        """The next round that has workers: a new coordinator may skip a number."""
        wait_until(lambda: max(self.rounds(), default=-1) > number, f"a round after {number}", timeout)
        return min(later for later in self.rounds() if later > number)

    # The end of the job.

    def codes(self, timeout: float = DEADLINE) -> list[int]:
        """Wait for all nodes, and check that no process is left. Returns the exit codes in the order of the starts."""
        give_up = time.monotonic() + timeout
        codes = [node.wait(max(0.1, give_up - time.monotonic())) for node in self.nodes.started]
        for node in self.nodes.started:
            node.assert_nobody_left()
        return codes

    def __str__(self) -> str:
        return "".join(f"\n--- {node.host.name}\n{node.err[-2000:]}" for node in self.nodes.started)
