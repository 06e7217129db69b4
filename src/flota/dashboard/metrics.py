"""What Prometheus reads: the snapshot of a job as metrics, with prometheus_client."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flota.errors import MetricsMissing

Json = dict[str, Any]
KIND = "text/plain; version=0.0.4; charset=utf-8"
PROGRESS = {"fastest": "shortest", "seconds": "median", "slowest": "longest"}


class JobCounters:
    """Numbers that only grow while the server runs. A node keeps the last restarts only, so they are counted here."""

    def __init__(self) -> None:
        self.restarts: Counter[str] = Counter()  # by cause
        self.joined = self.lost = 0
        self._last_round = -1
        self._places: set[tuple[str, str]] = set()

    def note_restarts(self, restarts: Iterable[Json]) -> None:
        for one in restarts:
            if one["round"] > self._last_round:
                self._last_round = one["round"]
                self.restarts[cause_of(one)] += 1

    def note_places(self, places: set[tuple[str, str]]) -> None:
        """`places`: hosts and endpoints of the nodes of the running round."""
        self.joined += len(places - self._places)
        self.lost += len(self._places - places)
        self._places = places

    def note_earlier(self, lost: int) -> None:
        """Nodes that joined and were lost before."""
        self.joined += lost
        self.lost += lost


def metrics_of(snapshot: Json, counters: JobCounters) -> bytes:
    """Raises MetricsMissing without prometheus_client."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
    except ImportError:
        raise MetricsMissing from None
    registry = CollectorRegistry()
    registry.register(_JobCollector(snapshot, counters))
    return generate_latest(registry)


class _JobCollector:
    def __init__(self, snapshot: Json, counters: JobCounters) -> None:
        self._snapshot = snapshot
        self._counters = counters

    def describe(self) -> list[Any]:
        return []  # otherwise the registry would call `collect` when it is registered

    def collect(self) -> Iterator[Any]:
        yield from self._about_nodes()
        yield from self._about_progress()
        yield from self._about_time()

    def _about_nodes(self) -> Iterator[Any]:
        snapshot, job = self._snapshot, self._snapshot["job"]
        silent = len(snapshot["missing"])
        states = Counter(snapshot["ranks"]["state"])
        yield from self._gauges("workers", "Workers by state.", "state", dict(sorted(states.items())))
        yield from self._gauge("spares", "Nodes that wait to replace others.", len(job["spares"]))
        yield from self._gauge(
            "nodes", "Nodes of the running round.", len(snapshot["nodes"]) + len(snapshot["missing"])
        )
        yield from self._gauge("nodes_silent", "Nodes that did not answer the last request.", silent)
        yield from self._gauge("round", "Number of the round.", job["round"])
        yield self._counter("restarts", "Restarts by cause.", "cause", self._counters.restarts)
        yield self._counter("node_joins", "Nodes that joined.", "", {"": self._counters.joined})
        yield self._counter("node_losses", "Nodes that were lost or left.", "", {"": self._counters.lost})
        store = {
            f"{one['seat']}": one["store_seconds"] for one in snapshot["nodes"] if one["store_seconds"] is not None
        }
        yield from self._gauges("store_request_seconds", "Time of a node's last request to the store.", "node", store)
        words = "Time that the last request to all nodes took."
        yield from self._gauge("status_request_seconds", words, snapshot.get("request_seconds"))

    def _about_progress(self) -> Iterator[Any]:
        progress = self._snapshot["progress"]
        yield from self._gauge("step", "Step of the slowest rank.", progress.get("step"))
        yield from self._gauge("steps_expected", "Total number of steps.", progress.get("total"))
        for key, word in PROGRESS.items():
            yield from self._gauge(f"step_{word}_seconds", f"The {word} step time of all ranks.", progress.get(key))
        yield self._by_rank("rank_step_seconds", "Step time of a rank.", "seconds")
        yield self._by_rank("rank_step", "Step of a rank.", "step")

    def _about_time(self) -> Iterator[Any]:
        ledger = self._snapshot.get("ledger") or {}
        words = "Share of the time in steps that were not done again."
        yield from self._gauge("goodput_ratio", words, ledger.get("goodput"))
        words = "Ranks whose time is unknown, which goodput leaves out."
        yield from self._gauge("unknown_ranks", words, ledger.get("unknown_ranks"))
        yield from self._gauges("time_seconds", "Time of all ranks by label.", "label", ledger.get("seconds", {}))

    def _gauge(self, metric: str, words: str, value: float | None) -> Iterator[Any]:
        yield from self._gauges(metric, words, "", {} if value is None else {"": value})

    def _gauges(self, metric: str, words: str, label: str, values: Mapping[str, float]) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        if values:
            yield self._filled(GaugeMetricFamily, metric, words, label, values)

    def _counter(self, metric: str, words: str, label: str, values: Mapping[str, float]) -> Any:
        from prometheus_client.core import CounterMetricFamily

        return self._filled(CounterMetricFamily, metric, words, label, values)

    def _filled(self, kind: Any, metric: str, words: str, label: str, values: Mapping[str, float]) -> Any:
        family = kind(f"flota_{metric}", words, labels=["job_id", *([label] if label else [])])
        for key, value in values.items():
            family.add_metric([self._snapshot["job"]["id"], *([key] if label else [])], value)
        return family

    def _by_rank(self, metric: str, words: str, column: str) -> Any:
        from prometheus_client.core import GaugeMetricFamily

        ranks = self._snapshot["ranks"]
        family = GaugeMetricFamily(f"flota_{metric}", words, labels=["job_id", "role", "rank"])
        for role, rank, value in zip(ranks["role"], ranks["rank"], ranks[column], strict=True):
            if value is not None:
                family.add_metric([self._snapshot["job"]["id"], role, str(rank)], value)
        return family


def cause_of(restart: Json) -> str:
    """A short name with few different values: a number in a label would create a new time series each time."""
    if restart["lost"]:
        return "node lost"
    if " is evicted: " in restart["reason"]:
        return "node evicted"
    reason = re.sub(r"^\S+ \d+ ", "", str(restart["reason"]).partition(";")[0])  # without the rank, and the spare
    words = [word for word in reason.split() if not any(letter.isdigit() for letter in word)]
    return " ".join(words)[:64] or "unknown"
