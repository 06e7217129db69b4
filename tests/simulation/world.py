"""A whole cluster in one process and in virtual time: a store, a network that loses messages, and nodes that crash.

The nodes are flota's own classes (Member, Registration, Follower, Coordinator) on the store's own core; only sockets,
clocks and workers are replaced. Everything depends on a random seed, so every failure can be reproduced.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from flota.store.client import Lost
from flota.store.etcd_json import EXHAUSTED, LeaseGrant, Put, Refusal, Txn, WatchAnswer, WatchCreate
from flota.store.kv import KeyValueStore
from flota.store.server_watches import ServerWatches

ANSWER_TIME = 2.0


class World:
    """The virtual clock and its queue of calls."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 1000.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, time: float, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (max(time, self.now), self._count, call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.at(self.now + seconds, call)

    def run(self, until: float, done: Callable[[], bool]) -> None:
        while self._queue and self._queue[0][0] <= until and not done():
            self.now, _, call = heapq.heappop(self._queue)
            call()
        self.now = min(until, self.now) if done() else until


class Store:
    """The store's core behind a network in which any client can be cut off and any message lost."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.core = KeyValueStore(lambda: self._requests)
        self.watches = ServerWatches()
        self.paused_until = 0.0
        self.dead = False
        self.full = False  # as an etcd without space
        self.loss = 0.0
        self._requests = 0
        self._watchers: dict[Watching, WatchCreate] = {}
        world.after(0.25, self._expire)

    def _expire(self) -> None:
        if self.dead:
            return
        if self.world.now >= self.paused_until:
            self.core.expire(self.world.now)
            self._tell()
        self.world.after(0.25, self._expire)

    def serve(self, request: Any) -> Any:
        self._requests += 1
        try:
            if self.full and isinstance(request, (Put, Txn, LeaseGrant)):
                raise Refusal(EXHAUSTED, "etcdserver: mvcc: database space exceeded")
            answer = self.core.answer(request, self.world.now)
        except Refusal as refusal:
            answer = refusal
        self._tell()
        return answer

    def watch(self, watching: Watching, ask: WatchCreate) -> None:
        past = self.watches.add(watching, ask)
        self._watchers[watching] = ask
        watching.deliver(WatchAnswer(self.core.header(), created=True))
        if past:
            watching.deliver(WatchAnswer(self.core.header(), events=past))

    def forget(self, watching: Watching) -> None:
        ask = self._watchers.pop(watching, None)
        if ask:
            self.watches.remove(watching, ask)

    def _tell(self) -> None:
        events = self.core.take_events()
        for chosen, watchers in self.watches.publish(events) if events else ():
            for watching in sorted(watchers, key=lambda one: one.number):
                watching.deliver(WatchAnswer(self.core.header(), events=chosen))


class Client:
    """One node's connection to the store."""

    def __init__(self, store: Store) -> None:
        self.world = store.world
        self.store = store
        self.cut = False
        self.closed = False
        self._watches: list[Watching] = []

    def ask(self, request: Any, then: Callable[[Any], None], _now: float) -> None:
        open_question = [True]

        def answer(words: Any) -> None:
            if open_question[0] and not self.closed:
                open_question[0] = False
                if isinstance(words, Lost):
                    self._drop_watches()
                then(words)

        def arrive() -> None:
            if self._gone():
                return
            if self.world.now < self.store.paused_until:
                self.world.at(self.store.paused_until + self._latency(), arrive)
                return
            reply = self.store.serve(request)
            if not self._gone():
                self.world.after(self._latency(), lambda: None if self.cut else answer(reply))

        self.world.after(self._latency(), arrive)
        self.world.after(ANSWER_TIME, lambda: answer(Lost("no answer in time")))

    def watch(self, ask: WatchCreate, heard: Callable[[Any], None], _lease: int = 0) -> Watching:
        watching = Watching(self, heard)
        self._watches.append(watching)

        def arrive() -> None:
            if self._gone():
                self.world.after(ANSWER_TIME, watching.lose)
            elif not watching.closed:
                self.store.watch(watching, ask)

        self.world.after(self._latency(), arrive)
        return watching

    def heal(self) -> None:
        """Deliver what was sent during the cut, unless the connection has broken."""
        self.cut = False
        for watching in list(self._watches):
            if self.world.random.random() < 0.7:
                watching.lose()
            else:
                watching.catch_up()

    def close(self) -> None:
        self.closed = True
        for watching in list(self._watches):
            watching.close()

    def forget(self, watching: Watching) -> None:
        if watching in self._watches:
            self._watches.remove(watching)

    def _drop_watches(self) -> None:
        for watching in list(self._watches):
            watching.lose()

    def _gone(self) -> bool:
        return self.cut or self.closed or self.store.dead or self.world.random.random() < self.store.loss

    def _latency(self) -> float:
        return self.world.random.uniform(0.0002, 0.004)


class Watching:
    """One watch: it delivers in order, and delivers what was sent during a cut when it is healed."""

    numbers = 0

    def __init__(self, client: Client, heard: Callable[[Any], None]) -> None:
        Watching.numbers += 1
        self.number = Watching.numbers
        self.client = client
        self.heard = heard
        self.closed = False
        self._waiting: list[WatchAnswer] = []
        self._next_at = 0.0

    def deliver(self, answer: WatchAnswer) -> None:
        self._waiting.append(answer)
        world = self.client.world
        self._next_at = max(self._next_at, world.now + world.random.uniform(0.0002, 0.004))
        world.at(self._next_at, self.catch_up)

    def catch_up(self) -> None:
        while self._waiting and not self.closed and not self.client.cut:
            self.heard(self._waiting.pop(0))

    def lose(self) -> None:
        if not self.closed and not self.client.closed:
            self.close()
            self.heard(Lost("no answer in time"))

    def close(self) -> None:
        self.closed = True
        self.client.store.forget(self)
        self.client.forget(self)
