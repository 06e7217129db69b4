"""Messages about the whole job: start, success, stop. Pure."""

from __future__ import annotations

from flota.errors import TIMEOUT, TRY_AGAIN
from flota.humanize import (
    counts_in_words,
    duration_in_words,
    list_in_words,
    numbers_in_words,
    signal_name,
    workers_in_words,
)
from flota.job.report import NO_STEP, Report
from flota.job.roles import TRAINER, label
from flota.job.spec import JobSpec

SIGINT = 2


def start_message(spec: JobSpec, host: str, working_directory: str) -> str:
    """For example: 4 workers on gpu01 (devices 0-3), showing rank 0, all output in log/"""
    parts = [f"{_workers(spec)} on {host} ({_devices(spec.devices.chosen)})"]
    if spec.interactive:
        parts.append("connected to this terminal")
    else:
        logs = spec.log.directory.removeprefix(f"{working_directory}/")
        parts += [*_shown(spec), f"all output in {logs}/"]
    return ", ".join(parts)


def _workers(spec: JobSpec) -> str:
    sizes: dict[str, int] = {}
    for role in spec.all_roles:
        name = "worker" if role.name == TRAINER and len(spec.all_roles) == 1 else role.name
        sizes[name] = sizes.get(name, 0) + role.workers
    return counts_in_words(sizes)


def _devices(devices: tuple[str, ...]) -> str:
    if not devices:
        return "CPU"
    if all(device.isdecimal() for device in devices):
        names = numbers_in_words(map(int, devices))
    else:
        names = list_in_words(list(devices))
    return f"device{'s' * (len(devices) > 1)} {names}"


def _shown(spec: JobSpec) -> list[str]:
    ranks = [rank for rank in range(spec.workers) if spec.log.shows(rank) or spec.log.teed(rank)]
    if spec.workers == 1 and ranks:
        return []
    if not ranks:
        return ["showing no ranks"]
    if len(ranks) == spec.workers:
        return ["showing all ranks"]
    return [f"showing {workers_in_words((TRAINER, rank) for rank in ranks)}"]


def stop_message(cause: str, signal: int, workers: int, grace: float, *, again: bool) -> str:
    """`cause`: why workers stop, for example `SIGTERM received`. `again`: they have already been asked to stop."""
    who = counts_in_words({"worker": workers})
    if again:
        return f"killing {who}" if signal == SIGINT else cause
    if signal != SIGINT:
        return f"{cause}; stopping {who} (up to {grace:g} s)"
    return f"stopping {who} (up to {grace:g} s; press Ctrl-C again to kill now)"


def stopped_message(report: Report) -> str:
    """The last line of a job that was stopped."""
    if report.exit_code == TIMEOUT:
        return report.verdict.reason
    cause, took = report.verdict.stopped_by or signal_name(report.verdict.signal), duration_in_words(report.seconds)
    if report.exit_code == TRY_AGAIN:
        step = f" at step {report.stop_step}" if report.stop_step != NO_STEP else ""
        who = f"all {report.workers} ranks" if report.workers > 1 else "rank 0"
        return f"preempted by {cause} after {took}: {who} saved{step} and exited"
    reason = f": {report.verdict.reason}" if report.verdict.reason else ""
    return f"stopped by {cause} after {took}{reason}"


def success_message(report: Report) -> str:
    """For example: all 4 workers finished successfully in 3m12s (1 restart: rank 2 FileNotFoundError at 0m40s)"""
    ignored = f"; ignored: {', '.join(label(*one) for one in report.ignored)}" if report.ignored else ""
    restarts = ""
    if report.restarts:
        from flota.failures.report_text import restarts_in_words

        restarts = f" ({'; '.join(restarts_in_words(report))})"
    return f"{_all_workers(report)} finished successfully in {duration_in_words(report.seconds)}{restarts}{ignored}"


def _all_workers(report: Report) -> str:
    if set(report.sizes) == {TRAINER} and not report.ignored:
        return f"{'all ' * (report.workers > 1)}{counts_in_words({'worker': report.workers})}"
    names = [name for name, _ in report.ignored]
    return counts_in_words({name: size - names.count(name) for name, size in report.sizes.items()}) or "no workers"
