"""What the page shows of a job at one moment, as a value that is sent as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flota.dashboard.job_progress import progress_of
from flota.job.report import NO_STEP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.control.client import JobAnswer
    from flota.control.status import JobStatus, NodeStatus, RankStatus

Json = dict[str, Any]
RankKey = tuple[str, int, int]  # role, rank and pid


def take_snapshot(answer: JobAnswer, cpu_before: Mapping[RankKey, float], elapsed: float, pace: float = 0.0) -> Json:
    """`cpu_before`: the CPU seconds of each rank, `elapsed` seconds ago. `pace`: steps per second, if measured."""
    ranks = [(node.seat, rank) for node in answer.nodes for rank in node.ranks]
    return {
        "live": True,
        "job": _job(answer.job),
        "nodes": [_node(node) for node in answer.nodes],
        "missing": [{"host": host, "why": why} for host, why in answer.missing],
        "ranks": _columns(ranks, cpu_before, elapsed),
        "progress": progress_of([rank for _, rank in ranks], pace),
    }


def cpu_of(answer: JobAnswer) -> dict[RankKey, float]:
    return {_key(rank): rank.cpu for node in answer.nodes for rank in node.ranks}


def _key(rank: RankStatus) -> RankKey:
    return rank.role, rank.rank, rank.pid


def _job(job: JobStatus) -> Json:
    names = ("state", "round", "attempt", "restart_limit", "began", "now", "world_size", "log_dir", "message")
    return {
        "id": job.job_id,
        **{name: getattr(job, name) for name in names},
        "command": " ".join(job.command),
        "restarts": [
            {"round": one.round, "at": one.at, "reason": one.reason, "counted": one.counted, "lost": one.lost}
            for one in job.restarts
        ],
        "spares": [place.host for place in job.spares],
        "slow": [{"rank": one.rank, "role": one.role, "host": one.host, "factor": one.factor} for one in job.slow],
    }


def _node(node: NodeStatus) -> Json:
    names = ("seat", "host", "state", "address", "cpus", "load", "memory", "memory_used", "store_seconds")
    return {**{name: getattr(node, name) for name in names}, "ranks": len(node.ranks)}


def _columns(ranks: list[tuple[int, RankStatus]], cpu_before: Mapping[RankKey, float], elapsed: float) -> Json:
    """A list for each fact instead of an object for each rank: a third of the size."""
    rows = [rank for _, rank in ranks]
    return {
        "seat": [seat for seat, _ in ranks],
        "rank": [one.rank for one in rows],
        "role": [one.role for one in rows],
        "device": [",".join(one.devices) for one in rows],
        "pid": [one.pid for one in rows],
        "state": [one.state for one in rows],
        "exit": [one.exit_code for one in rows],
        "step": [None if one.step == NO_STEP else one.step for one in rows],
        "seconds": [one.step_seconds or None for one in rows],
        "beat": [one.heartbeat for one in rows],
        "cpu": [_cores(one, cpu_before, elapsed) for one in rows],
        "memory": [one.memory or None for one in rows],
        "use": [one.device_use for one in rows],
        "logs": [stream_names(one.logs) for one in rows],
    }


def stream_names(logs: tuple[str, ...]) -> list[str] | None:
    """With a file for each stream, their names; None for the usual single file."""
    return [path.rpartition(".")[2] for path in logs] if len(logs) > 1 else None


def _cores(rank: RankStatus, cpu_before: Mapping[RankKey, float], elapsed: float) -> float | None:
    """How many CPUs it used lately."""
    before = cpu_before.get(_key(rank))
    return None if before is None or elapsed <= 0 else round(max(0.0, rank.cpu - before) / elapsed, 2)
