"""At the end of a job a member stays until no other node reads the store: after most have left, none can read it."""

from __future__ import annotations

import time

from flota.store.client import Client
from flota.store.client_connection import Lost
from flota.store.etcd_json import Range, RangeAnswer, Refusal, StoreAnswer
from flota.store.keys import Keys, end_of, node_of

INTERVAL = 0.05  # seconds between looks


class LastReader:
    """`done`: all nodes that had a record at first have removed it, or the member does not answer.

    `client`: of this node's own member only, which answers without a majority. Call `on_time` at the `deadline`.
    """

    def __init__(self, client: Client, keys: Keys) -> None:
        self.done = False
        self.deadline: float | None = None
        self._client, self._keys = client, keys
        self._awaited: set[str] | None = None  # records that appear later may belong to the next run
        self._ask()

    def on_time(self, now: float) -> None:
        self._client.on_time(now)
        if self.deadline is not None and now >= self.deadline:
            self._ask()

    def _ask(self) -> None:
        nodes, self.deadline = self._keys.nodes, None
        request = Range(key=nodes, range_end=end_of(nodes), serializable=True)
        self._client.ask(request, self._on_answer, time.monotonic())

    def _on_answer(self, answer: StoreAnswer | Refusal | Lost) -> None:
        if not isinstance(answer, RangeAnswer):
            self.done = True
            return
        here = {node_of(entry) for entry in answer.kvs}
        self._awaited = here if self._awaited is None else self._awaited & here
        self.done = not self._awaited
        self.deadline = None if self.done else time.monotonic() + INTERVAL
