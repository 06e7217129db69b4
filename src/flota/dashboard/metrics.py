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
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        snapshot, job = self._snapshot, self._snapshot["job"]
        name = [job["id"]]

        def gauge(metric: str, words: str, value: float | None) -> Iterator[Any]:
            if value is not None:
                family = GaugeMetricFamily(f"flota_{metric}", words, labels=["job_id"])
                family.add_metric(name, value)
                yield family

        def counter(metric: str, words: str, label: str, values: Mapping[str, float]) -> Iterator[Any]:
            family = CounterMetricFamily(f"flota_{metric}", words, labels=["job_id", *([label] if label else [])])
            for key, value in values.items():
                family.add_metric([*name, *([key] if label else [])], value)
            yield family

        workers = GaugeMetricFamily("flota_workers", "Workers by state.", labels=["job_id", "state"])
        for state, count in sorted(Counter(snapshot["ranks"]["state"]).items()):
            workers.add_metric([*name, state], count)
        yield workers
        yield from gauge("nodes", "Nodes of the running round.", len(snapshot["nodes"]) + len(snapshot["missing"]))
        yield from gauge("nodes_silent", "Nodes that did not answer the last request.", len(snapshot["missing"]))
        yield from gauge("round", "Number of the round.", job["round"])
        causes = Counter(cause_of(one) for one in job["restarts"])
        yield from counter("restarts", "Restarts by cause.", "cause", causes)
        yield from counter(
            "node_joins", "Nodes that joined, as seen by this server.", "", {"": self._counters["joined"]}
        )
        yield from counter("node_losses", "Nodes that were lost or left.", "", {"": self._counters["lost"]})
        progress = snapshot["progress"]
        yield from gauge("step", "Step of the slowest rank.", progress.get("step"))
        yield from gauge("steps_expected", "Total number of steps.", progress.get("total"))
        for key, word in PROGRESS.items():
            yield from gauge(f"step_{word}_seconds", f"The {word} step time of all ranks.", progress.get(key))
        yield from self._by_rank("rank_step_seconds", "Step time of a rank.", "seconds")
        yield from self._by_rank("rank_step", "Step of a rank.", "step")
        ledger = snapshot.get("ledger") or {}
        yield from gauge("goodput_ratio", "Share of the time in steps that were not done again.", ledger.get("goodput"))
        spent = GaugeMetricFamily("flota_time_seconds", "Time of all ranks by label.", labels=["job_id", "label"])
        for label, seconds in ledger.get("seconds", {}).items():
            spent.add_metric([*name, label], seconds)
        yield spent
        yield from gauge("status_request_seconds", "Time that the last request took.", snapshot.get("request_seconds"))

    def _by_rank(self, metric: str, words: str, column: str) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        ranks = self._snapshot["ranks"]
        family = GaugeMetricFamily(f"flota_{metric}", words, labels=["job_id", "role", "rank"])
        for role, rank, value in zip(ranks["role"], ranks["rank"], ranks[column], strict=True):
            if value is not None:
                family.add_metric([self._snapshot["job"]["id"], role, str(rank)], value)
        yield family


def cause_of(restart: Json) -> str:
    """A short name with few different values: a number in a label would create a new time series each time."""
    if restart["lost"]:
        return "node lost"
    reason = re.sub(r"^\S+ \d+ ", "", str(restart["reason"]))  # without the rank
    words = [word for word in reason.split() if not any(letter.isdigit() for letter in word)]
    return " ".join(words)[:64] or "unknown"
