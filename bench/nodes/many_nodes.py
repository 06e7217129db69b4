"""Many nodes in one process, against a master that is a real flota: many_nodes.py PORT COUNT [last].

It sends the same requests as a node's Registration (flota's own messages, keys and records), over as many connections:
a lease, a watch that names it, the record, the record again when the roster has arrived, renewals. Only work of the
nodes themselves is reduced, because thousands of nodes share one CPU here, but have one each in a real job: headers of
answers are searched, not parsed by h11, and a roster is decoded only if it differs from the last one. A node that is
not answered in time sends its request again on a new connection, as a real node does.

COUNT nodes start at once; with `last`, one of them starts after all others have joined. The first line of output has
the times. Then the nodes keep running until the process is killed.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from wire import Wire

from flota.cluster.job_state import RUNNING as ROUND_RUNS
from flota.cluster.job_state import decode_state
from flota.cluster.lease_times import lease_of
from flota.cluster.node_record import RUNNING, NodeRecord, decode_record, encode_record
from flota.cluster.registration import RETRY
from flota.job.nodes import NodesSpec
from flota.job.roster import Ports
from flota.store.client import ANSWER_TIME
from flota.store.etcd_json import (
    ROUTES,
    KeyValue,
    LeaseAnswer,
    LeaseGrant,
    LeaseKeepAlive,
    Range,
    RangeAnswer,
    StoreRequest,
    TxnAnswer,
    WatchCreate,
    WatchRequest,
    read_answer,
)
from flota.store.keys import end_of, keys_of, node_of

KEYS = keys_of(None)
WATCH = WatchRequest(create_request=WatchCreate(key=KEYS.coordinator, range_end=end_of(KEYS.coordinator)))
PATIENCE = 60.0  # seconds
EVENTS = b'"events":'


class Follower:
    def __init__(self, crowd: Crowd, record: NodeRecord) -> None:
        self.crowd = crowd
        self.name = os.urandom(8).hex()
        self.record = record
        self.lease = 0
        self.questions: Wire | None = None
        self.waiting: deque[tuple[StoreRequest, Callable[[Any], None]]] = deque()
        self.lost_at = math.inf  # when the first of them counts as lost
        self.listens = self.has_roster = False

    def start(self) -> None:
        self.ask(LeaseGrant(ttl=self.crowd.ttl), self._on_granted)

    def ask(self, request: StoreRequest, then: Callable[[Any], None]) -> None:
        self.waiting.append((request, then))
        if len(self.waiting) == 1:
            self._next()

    def renew(self) -> None:
        self.ask(LeaseKeepAlive(id=self.lease), lambda _: None)

    def ask_again(self) -> None:
        self.crowd.lost += 1
        self.questions.close()
        self.questions = None
        self._next()

    def _next(self) -> None:
        self.questions = self.questions or Wire(self.crowd, self._on_answer, streams=False)
        self.lost_at = time.monotonic() + self.crowd.answer_time + RETRY
        request, _ = self.waiting[0]
        self.questions.send(ROUTES[type(request)][0], request)

    def _on_answer(self, body: bytes) -> None:
        request, then = self.waiting.popleft()
        self.lost_at = math.inf
        then(read_answer(200, body, request))
        if self.waiting and self.lost_at == math.inf:
            self._next()

    def _on_granted(self, answer: LeaseAnswer) -> None:
        self.lease = int(answer.id)
        self.crowd.renewals.append((time.monotonic() + self.crowd.ttl / 3, self))
        self.ear = Wire(self.crowd, self._on_line, streams=True)
        self.ear.send("/v3/watch", WATCH, f"x-flota-lease: {self.lease}\r\n")

    def _on_line(self, line: bytes) -> None:
        if not self.listens:  # the watch's own first line
            self.listens = True
            self._join(self._on_joined, knowing=False)
        elif self.crowd.has_roster(line):
            self._take_seat()

    def _join(self, then: Callable[[Any], None], *, knowing: bool) -> None:
        self.ask(KEYS.put_record(self.name, encode_record(self.record), self.lease, reads=not knowing), then)

    def _on_joined(self, answer: TxnAnswer) -> None:
        self.crowd.joined += 1
        for entry in answer.responses[1].response_range.kvs:
            if entry.key == KEYS.job_state and self.crowd.is_roster(entry.value):
                self._take_seat()

    def _take_seat(self) -> None:
        if not self.has_roster:
            self.has_roster = True
            self.crowd.having += 1
            self.record = replace(self.record, state=RUNNING)
            self._join(lambda _: None, knowing=True)


class Crowd:
    """All nodes except the master's, and what they share."""

    def __init__(self, port: int, count: int) -> None:
        self.master = ("127.0.0.1", port)
        self.epoll = select.epoll()
        self.wires: dict[int, Wire] = {}
        self.renewals: deque[tuple[float, Follower]] = deque()
        self.joined = self.having = self.lost = 0
        self.look_at = 0.0
        self.roster = b""
        self.heard: deque[tuple[bytes, bool]] = deque(maxlen=16)
        self.ttl = lease_of(NodesSpec(count + 1, count + 1))
        self.answer_time = max(ANSWER_TIME, self.ttl / 5)
        self.nodes: list[Follower] = []

    def gather(self, count: int) -> None:
        """Create nodes with records like the master's own, but of other hosts."""
        like = self._record_of_master()
        chance = random.Random(count)
        for number in range(count):
            address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
            numbers = [str(chance.randrange(32768, 61000)) for _ in range(like.workers + 3)]
            ports = Ports(tuple(numbers[:-3]), *numbers[-3:])
            record = replace(like, host=f"node{number:05}", address=address, ports=ports, serves=False)
            self.nodes.append(Follower(self, record))

    def _record_of_master(self) -> NodeRecord:
        """Wait until the master's node is in its own store."""
        found: list[KeyValue] = []
        give_up = time.monotonic() + PATIENCE
        while not found:
            if time.monotonic() > give_up:
                sys.exit("many_nodes: no master, or no record in it")
            if self._is_master_there():
                self._ask_for_records(found)
            else:
                time.sleep(0.01)
        self.others = {node_of(found[0])}
        return decode_record(found[0].value)

    def _is_master_there(self) -> bool:
        try:
            socket.create_connection(self.master).close()
        except OSError:
            return False
        return True

    def _ask_for_records(self, found: list[KeyValue]) -> None:
        answers: list[RangeAnswer] = []
        request = Range(key=KEYS.nodes, range_end=end_of(KEYS.nodes))
        wire = Wire(self, lambda body: answers.append(read_answer(200, body, request)), streams=False)
        wire.send("/v3/kv/range", request)
        self.run_until(lambda: bool(answers))
        wire.close()
        found += answers[0].kvs

    def has_roster(self, line: bytes) -> bool:
        """Whether a line of a watch contains the roster. Usually other nodes have received the same events."""
        text = line[line.find(EVENTS) :]
        for known, is_roster in self.heard:
            if text == known:
                return is_roster
        answer = read_answer(200, line, WATCH)
        values = [event.kv.value for event in answer.events if event.kv.key == KEYS.job_state]
        self.heard.appendleft((text, any(map(self.is_roster, values))))
        return self.heard[0][1]

    def is_roster(self, value: bytes) -> bool:
        if value == self.roster:
            return True
        job_state = decode_state(value)
        if job_state is None:
            sys.exit("many_nodes: the job has ended")
        if job_state.phase != ROUND_RUNS:
            return False
        if {row.node for row in job_state.seats} != {node.name for node in self.nodes} | self.others:
            sys.exit("many_nodes: a roster of other nodes")
        self.roster = value
        return True

    def run_until(self, true: Callable[[], bool], patience: float = PATIENCE) -> None:
        give_up = time.monotonic() + patience
        while not true():
            for fd, _ in self.epoll.poll(0.1):
                self.wires[fd].on_ready()
            now = time.monotonic()
            self._renew(now)
            self._ask_again(now)
            if now > give_up:
                have = f"{self.joined} joined, {self.having} have the roster, {self.lost} answers were lost"
                sys.exit(f"many_nodes: {have} after {patience:.0f} s")

    def _renew(self, now: float) -> None:
        while self.renewals and self.renewals[0][0] <= now:
            _, node = self.renewals.popleft()
            node.renew()
            self.renewals.append((now + self.ttl / 3, node))

    def _ask_again(self, now: float) -> None:
        if now < self.look_at:
            return
        self.look_at = now + RETRY
        for node in self.nodes:
            if now >= node.lost_at:
                node.ask_again()


def main(port: int, count: int, *, one_is_last: bool) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    crowd = Crowd(port, count)
    crowd.gather(count)
    first, last = (crowd.nodes[:-1], crowd.nodes[-1:]) if one_is_last else (crowd.nodes, [])
    began = time.monotonic()
    for node in first:
        node.start()
    if last:
        crowd.run_until(lambda: crowd.joined == len(first))
    last_began = time.monotonic()
    for node in last:
        node.start()
    crowd.run_until(lambda: crowd.having == count)
    times = {"began": began, "last_began": last_began, "ended": time.monotonic()}
    print(json.dumps({**times, "lost": crowd.lost}), flush=True)
    crowd.run_until(lambda: False, math.inf)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), one_is_last=sys.argv[3:] == ["last"])
