"""Finds runs in log directories, also by a `--log_dir` with placeholders."""

import os
from glob import escape, glob

from flota.job.log_template import LATEST, PLACEHOLDERS, fill, split_at_run
from flota.job.report import Report, report_from_dict
from flota.logs.directory import LOCK, is_locked, read_end
from flota.logs.parse_events import parse_object

MOST_REPORT = 16 << 20  # bytes
MOST_LINKS = 8  # `latest` below `latest`


def latest_run(directory: str) -> str:
    """The run beside its link `latest` in a directory; empty if there is none. A link that leads anywhere else is not
    flota's.
    """
    try:
        name = os.readlink(f"{directory}/{LATEST}")
    except OSError:
        return ""
    run = f"{directory}/{name}"
    is_beside = "/" not in name and name not in (".", "..")
    return run if is_beside and os.path.isdir(run) and not os.path.islink(run) else ""


def run_directories(path: str) -> list[str]:
    """Where nodes of the last job may have left something: a directory, its latest run, or the directories below it, as
    when those of several nodes were put side by side.
    """
    found = [path]
    while (latest := latest_run(found[-1])) and len(found) < MOST_LINKS:
        found.append(latest)
    below = [] if latest else _directories_in(found[-1])
    return [*found, *(place for one in below for place in (one, latest_run(one) or f"{one}/log"))]


def _directories_in(path: str) -> list[str]:
    try:
        return [f"{path}/{name}" for name in sorted(os.listdir(path)) if os.path.isdir(f"{path}/{name}")]
    except OSError:
        return []


def matching_runs(base: str, template: str) -> list[str]:
    """The directories that a `--log_dir` with placeholders has led to: the latest ones, if there are links."""
    before, _, after = split_at_run(template) or (template, "", "")
    runs = [latest_run(parent) for parent in _find(base, _pattern(before))]
    latest = [path for run in runs if run for path in _find(run, _pattern(after))]
    return latest or [path for path in _find(base, _pattern(template)) if os.path.isdir(path)]


def running_directory(base: str, template: str = "") -> str:
    """The newest directory with a running job of this machine, at `base` or below; `base` if there is none."""
    own_events = f"events.{os.uname().nodename}.jsonl"
    places = [_pattern(template)] if template else [".", "*", "*/*"]
    found = [lock for place in places for lock in _find(base, f"{place}/{LOCK}")]
    for lock in sorted(filter(os.path.isfile, found), key=_changed_at, reverse=True):
        directory = os.path.dirname(lock)
        if is_locked(directory) and os.path.exists(f"{directory}/{own_events}"):
            return directory
    return base


def finished_reports(base: str) -> list[tuple[str, Report]]:
    """The directories with a report at `base` or below, and their reports, the oldest first."""
    found = [path for place in (".", "*", "*/*", "*/*/*") for path in _find(base, f"{place}/report.json")]
    reports = ((os.path.dirname(path), read_report(path)) for path in found if f"/{LATEST}/" not in path)
    return sorted(((directory, report) for directory, report in reports if report), key=lambda one: one[1].began)


def read_report(path: str) -> Report | None:
    """The report in a file; None if there is none."""
    try:
        return report_from_dict(parse_object(read_end(path, MOST_REPORT)))
    except (TypeError, ValueError, AttributeError):
        return None


def _changed_at(path: str) -> float:
    try:
        return os.path.getmtime(path)
    except OSError:
        return 0.0


def _pattern(template: str) -> str:
    return fill(escape(template), dict.fromkeys(PLACEHOLDERS, "*"))


def _find(base: str, pattern: str) -> list[str]:
    return sorted(glob(os.path.normpath(os.path.join(escape(base), pattern)), include_hidden=True))
