"""A running job, as the page sees it: asks all nodes once a second while a browser shows it, and rarely otherwise."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from flota.control.client import JobAnswer, JobClient, NodeClient
from flota.control.status import ENDED, NodePlace, RankStatus
from flota.dashboard.curves import Curves, curves_of
from flota.dashboard.finished_job import FinishedJob, ledger_for_page
from flota.dashboard.job_source import LOG_PART, JobSource, NotThere, rank_name, read_from, tail_size
from flota.dashboard.live_ledger import make_live_ledger
from flota.dashboard.metrics import JobCounters
from flota.dashboard.node_events import NodeEvents, nodes_of
from flota.dashboard.snapshot import RankKey, cpu_of, take_snapshot
from flota.dashboard.timeline import timeline_of
from flota.errors import CannotAsk, FlotaError
from flota.job.printable import printable
from flota.job.report import NO_STEP
from flota.run.progress import StepPace

Json = dict[str, Any]

INTERVAL = 1.0  # seconds between questions while a browser shows the page
IDLE_INTERVAL = 10.0  # the same while none does, so that curves have no gaps
LOOKED = 3.0  # seconds for which a browser that has asked counts
SILENCE = 30.0  # seconds without an answer after which a job on other machines counts as ended
LEDGER_INTERVAL = 15.0  # seconds between readings of where the time went
EVENTS_INTERVAL = 2.0  # seconds between looks at the nodes' events
MOST_EVENTS = 4 << 20  # bytes of a node's events: the latest at first, and in each look
ASKED_AT_ONCE = 16
STACKS_TIME = 30.0  # seconds
SAME_JOB = 60.0  # seconds between what is known of the beginning of a job
HOST = os.uname().nodename


class LiveJob:
    """`on_end` is called when the job has ended: with what shows it from then on, or None if that is this object."""

    def __init__(
        self, client: JobClient, environ: dict[str, str], on_end: Callable[[JobSource | None], object]
    ) -> None:
        self._client = client
        self._environ = environ
        self._on_end = on_end
        self._answer = client.status()
        self._answered_at = time.monotonic()
        self._request_seconds = 0.0
        self._cpu: dict[RankKey, float] = {}
        self._number = 0
        self._snapshot: Json = {}
        self._encoded = b""
        self._curves = Curves()
        self._pace = StepPace()
        self._counters = JobCounters()
        self._counters.note_earlier(sum(len(one.lost) for one in self._answer.job.restarts))
        self._events: dict[NodePlace, tuple[int, NodeEvents]] = {}  # with the offset to go on from
        self._events_at = 0.0
        self._looked_at = self._ledger_at = 0.0
        self._ledger: Json | None = None
        self._has_ended = False
        self._changed = threading.Condition()
        self._wanted = threading.Event()
        self._asking = threading.Lock()
        self._reading_events = threading.Lock()
        self._take(self._answer, 0.0, reads_ledger=False)
        threading.Thread(target=self._run, daemon=True).start()

    # Asking.

    def _run(self) -> None:
        """The page may have been opened late: the events have what happened before."""
        past = curves_of(self._read_nodes())
        past.add_ranks(self._answer.job.now, [rank for node in self._answer.nodes for rank in node.ranks])
        self._curves = past
        self._ask(reads_ledger=True)
        while not self._has_ended:
            self._wanted.wait(INTERVAL if self._is_looked_at else IDLE_INTERVAL)
            if self._wanted.is_set():
                self._wanted.clear()
            self._ask(reads_ledger=self._is_looked_at)

    @property
    def _is_looked_at(self) -> bool:
        return time.monotonic() - self._looked_at < LOOKED

    def _ask(self, *, reads_ledger: bool) -> None:
        with self._asking:
            began = time.monotonic()
            try:
                answer = self._client.status()
            except CannotAsk as error:
                self._on_silence(error.why)
                return
            self._request_seconds = time.monotonic() - began
            self._take(answer, began - self._answered_at, reads_ledger=reads_ledger)
            self._answered_at = began

    def _take(self, answer: JobAnswer, elapsed: float, *, reads_ledger: bool) -> None:
        self._answer = answer
        ranks = [rank for node in answer.nodes for rank in node.ranks]
        self._pace.add((answer.job.now - (rank.heartbeat or 0.0), rank.step) for rank in ranks if rank.step != NO_STEP)
        snapshot = take_snapshot(answer, self._cpu, elapsed, self._pace.per_second)
        self._cpu = cpu_of(answer)
        self._curves.add_ranks(answer.job.now, ranks)
        self._counters.note_restarts(snapshot["job"]["restarts"])
        self._counters.note_places({(place.host, place.endpoint) for place in answer.job.nodes})
        if reads_ledger and time.monotonic() >= self._ledger_at:
            self._ledger_at = time.monotonic() + LEDGER_INTERVAL
            ledger = make_live_ledger(self._read_nodes(), answer)
            self._ledger = ledger_for_page(ledger) if ledger else None
        self._show({**snapshot, "ledger": self._ledger})

    def _show(self, snapshot: Json) -> None:
        with self._changed:
            self._number += 1
            self._snapshot = {**snapshot, "request_seconds": round(self._request_seconds, 4)}
            self._encoded = msgspec.json.encode(self._snapshot)
            self._changed.notify_all()

    def _on_silence(self, why: str) -> None:
        """The job has ended, its node is gone, or the network is."""
        pid, job = self._client.entry.pid, self._snapshot["job"]
        self._show({**self._snapshot, "job": {**job, "message": f"no answer: {why}"}})
        if self._client.use_another_entry():
            self._answered_at = time.monotonic()
            self._wanted.set()  # ask again at once
        elif (pid and not os.path.exists(f"/proc/{pid}")) or time.monotonic() - self._answered_at > SILENCE:
            self._end(job)

    def _end(self, job: Json) -> None:
        finished = find_finished(job)
        self._has_ended = True
        self._on_end(finished)
        ended = {**job, "state": ENDED, "message": ""}
        self._show(finished.newest() if finished else {**self._snapshot, "live": False, "job": ended})

    # Answers.

    def wait(self, known: int, seconds: float) -> tuple[int, bytes]:
        self._look()
        with self._changed:
            self._changed.wait_for(lambda: self._number != known, seconds)
            return self._number, self._encoded

    def _look(self) -> None:
        """A browser shows the page. The first one does not wait for the next question."""
        was_idle = not self._is_looked_at
        self._looked_at = time.monotonic()
        if was_idle:
            self._wanted.set()

    def newest(self) -> Json:
        if not self._has_ended and time.monotonic() - self._answered_at > INTERVAL:
            self._ask(reads_ledger=True)
        return self._snapshot

    def counters(self) -> JobCounters:
        return self._counters

    def curves(self) -> Json:
        return self._curves.as_dict()

    def timeline(self) -> Json:
        return timeline_of(self._read_nodes())

    def _read_nodes(self) -> list[list[Json]]:
        """The events of all nodes."""
        with self._reading_events:
            if time.monotonic() - self._events_at > EVENTS_INTERVAL:
                self._events_at = time.monotonic()
                self._read_events()
            return nodes_of(events for _, events in self._events.values())

    def _read_events(self) -> None:
        places = self._answer.job.nodes
        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
            for place, part in zip(places, pool.map(self._events_part, places), strict=True):
                if part is None:
                    continue  # the others are shown
                offset, events = self._events.get(place, (0, NodeEvents(len(places))))
                begins, data = part
                if offset > begins:
                    events = NodeEvents(len(places))  # it was replaced
                events.feed(data)
                self._events[place] = begins + len(data), events

    def _events_part(self, place: NodePlace) -> tuple[int, bytes] | None:
        """What is new in a node's events, and where it begins; None if the node does not answer."""
        offset = self._events[place][0] if place in self._events else -MOST_EVENTS
        if self._is_entry(place) and self._client.entry.pid:
            try:
                return read_from(f"{self._answer.job.log_dir}/events.{HOST}.jsonl", offset, MOST_EVENTS)
            except NotThere:
                pass  # the node has its files elsewhere
        try:
            return self._node(place).events_from(offset, MOST_EVENTS)
        except CannotAsk:
            return None

    def log_part(self, role: str, rank: int, file: int, offset: int) -> tuple[int, bytes]:
        ranks = {(one.role, one.rank): (node.seat, one.logs) for node in self._answer.nodes for one in node.ranks}
        seat, logs = ranks.get((role, rank), (None, ()))
        place = self._place(seat)
        if self._is_entry(place) and self._client.entry.pid and 0 <= file < len(logs):
            try:
                return read_from(logs[file], offset, LOG_PART)
            except NotThere:
                pass
        try:
            return self._node(place).log_from(role, rank, file, offset, LOG_PART)
        except CannotAsk as error:
            raise NotThere(error.why) from None

    def _place(self, seat: int | None) -> NodePlace:
        place = next((one for one in self._answer.job.nodes if one.seat == seat), None)
        if place is None:
            raise NotThere("the job has no such node or rank now")
        return place

    def _is_entry(self, place: NodePlace) -> bool:
        """Whether it is the node through which the job was found. If that is on this machine, its files are read
        directly, which costs the node nothing."""
        return place.seat == self._answer.seat

    def _node(self, place: NodePlace) -> NodeClient:
        client = self._client.another()
        return client.entry if self._is_entry(place) else client.node(place)

    def tails(self) -> list[tuple[str, bytes]]:
        ranks = [one for node in self._answer.nodes for one in node.ranks]
        size = tail_size(len(ranks))
        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
            return list(pool.map(lambda one: (rank_name(one.role, one.rank), self._tail(one, size)), ranks))

    def _tail(self, rank: RankStatus, size: int) -> bytes:
        try:
            parts = [self.log_part(rank.role, rank.rank, file, -size)[1] for file in range(len(rank.logs))]
        except NotThere:
            return b""
        return b"".join(parts)

    def stacks(self) -> list[str]:
        from flota.hangs.question import POSITIONS
        from flota.hangs.running_job import StackReader

        try:
            if len(self._answer.job.nodes) > 1 or not self._client.entry.pid:  # the workers may be on other machines
                return list(self._client.another().working_node().ask_job(POSITIONS, STACKS_TIME))
            reader = StackReader(self._answer.job.log_dir, self._environ, (), native=False)
            return reader.ask(lambda *_: (), lambda *_: ())[1].splitlines()
        except FlotaError as error:
            raise NotThere(error.message) from None

    def act(self, verb: str, seat: int) -> str:
        try:
            node = self._node(self._place(seat)) if verb == "leave" else self._client.another().working_node()
            return node.act(verb)
        except CannotAsk as error:
            raise NotThere(error.why) from None


def find_finished(job: Json) -> FinishedJob | None:
    """The same job in its log directory; None if that is on another machine, where this one may have another job."""
    try:
        found = FinishedJob([job["log_dir"]])
    except FlotaError:
        return None
    own = found.newest()["job"]
    return found if own["id"] == printable(job["id"]) and abs(own["began"] - job["began"]) < SAME_JOB else None
