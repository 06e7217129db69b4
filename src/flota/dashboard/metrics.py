"""What Prometheus reads: the snapshot of a job as metrics, with prometheus_client."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from flota.errors import MetricsMissing

Json = dict[str, Any]
KIND = "text/plain; version=0.0.4; charset=utf-8"
PROGRESS = {"fastest": "shortest", "seconds": "median", "slowest": "longest"}


def metrics_of(snapshot: Json, counters: Mapping[str, int]) -> bytes:
    """Raises MetricsMissing without prometheus_client."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
    except ImportError:
        raise MetricsMissing from None
    registry = CollectorRegistry()
    registry.register(_JobCollector(snapshot, counters))
    return generate_latest(registry)


class _JobCollector:
    def __init__(self, snapshot: Json, counters: Mapping[str, int]) -> None:
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
        yield from self._gauge(
            "nodes", "Nodes of the running round.", len(snapshot["nodes"]) + len(snapshot["missing"])
        )
        yield from self._gauge("nodes_silent", "Nodes that did not answer the last request.", silent)
        yield from self._gauge("round", "Number of the round.", job["round"])
        causes = Counter(cause_of(one) for one in job["restarts"])
        yield self._counter("restarts", "Restarts by cause.", "cause", causes)
        joined, lost = ({"": self._counters[name]} for name in ("joined", "lost"))
        yield self._counter("node_joins", "Nodes that joined, as seen by this server.", "", joined)
        yield self._counter("node_losses", "Nodes that were lost or left.", "", lost)
        words = "Time that the last request took."
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
    reason = re.sub(r"^\S+ \d+ ", "", str(restart["reason"]))  # without the rank
    words = [word for word in reason.split() if not any(letter.isdigit() for letter in word)]
    return " ".join(words)[:64] or "unknown"
