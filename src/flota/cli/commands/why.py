"""`flota why`: print the report of a finished job again."""

import os
import time

from flota.cli.build_spec import locate_log_dir
from flota.cli.settings import find_log_dir
from flota.errors import NoReport, UnknownFlag
from flota.failures.report_from_logs import NodeHistory, find_histories, reconstruct_report
from flota.failures.report_text import failure_report
from flota.humanize import duration_in_words, signal_name
from flota.job.printable import printable
from flota.job.report import STOPPED, SUCCEEDED, Report
from flota.logs.directory import is_locked
from flota.logs.find_runs import matching_runs
from flota.run.job_messages import stopped_message, success_message

USAGE = """\
usage: flota why [--verbose] [LOG_DIR …]

Print how the last job in a log directory ended: which worker failed first, why,
and its last output. LOG_DIR can be the directories of several nodes, a directory
that contains them, or the pattern that was given to --log_dir, such as
'runs/{job_id}/{time}', which selects the latest run.

  --log_dir DIR   the same as LOG_DIR [log]
  --verbose       print every failure in full, not only the first
"""


def main(words: list[str]) -> int:
    if {"-h", "--help"} & set(words):
        print(USAGE, end="")
        return 0
    verbose = False
    given: list[tuple[str, str]] = []  # paths, each with its source
    following = iter(words)
    for word in following:
        name, equals, value = word.partition("=")
        if name.replace("_", "-") == "--log-dir":
            given.append((value if equals else next(following, ""), "--log_dir"))
        elif word == "--verbose":
            verbose = True
        elif word.startswith("-"):
            raise UnknownFlag(word, "one of --log_dir, --verbose")
        else:
            given.append((word, "flota why"))
    given = given or [find_log_dir(os.environ)]
    histories = find_histories([path for one in given for path in expand(*one)])
    if not histories:
        raise NoReport(given[0][0])
    print("\n".join(map(printable, format_reports(histories, verbose=verbose))))
    return 0


def expand(path: str, source: str) -> list[str]:
    """The runs that a path with placeholders has led to; any other path as it is."""
    base, template = locate_log_dir(path, source)
    return matching_runs(base, template) if template else [path]


def format_reports(histories: list[NodeHistory], *, verbose: bool) -> list[str]:
    """One report if all nodes have the same; otherwise each different one, with its nodes, and the nodes without."""
    reports: dict[tuple[str, ...], list[str]] = {}
    for history in histories:
        if history.report and history.report.final:
            reports.setdefault(tuple(format_report(history.report, verbose=verbose)), []).append(history.node)
    without_report = [history for history in histories if history.report is None]
    early = next((history.report for history in histories if history.report and not history.report.final), None)
    lines: list[str] = []
    for report, nodes in reports.items():
        head = [f"{', '.join(filter(None, nodes))}:"] if len(reports) > 1 else []
        lines += [*([""] if lines else []), *head, *report]
    if without_report and not reports:
        lines += format_without_report(without_report, early, verbose=verbose)
    elif early and not reports:
        lines.append(f"{_job(early)}: {_killed_while_stopping(early)}")
    elif without_report:
        lines += ["", f"no report from {', '.join(history.node for history in without_report)}"]
    return lines


def format_report(report: Report, *, verbose: bool) -> list[str]:
    verdict, took = report.verdict, duration_in_words(report.seconds)
    if verdict.kind == SUCCEEDED:
        return [f"{_job(report)}: {success_message(report)}"]
    if verdict.kind == STOPPED:
        return [f"{_job(report)}: {stopped_message(report, '')}"]
    if not report.failed:
        return [f"{_job(report)}: {verdict.reason or verdict.kind} after {took}"]
    return failure_report(report, verbose=verbose)


def _job(report: Report) -> str:
    """Its start shows whether it is the job that the user means: other jobs may have other log directories."""
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(report.began))
    return f"job {report.job_id}, started {began}, logs in {report.log_dir}"


def _killed_while_stopping(early: Report) -> str:
    cause = signal_name(early.verdict.signal) if early.verdict.signal else early.verdict.reason or "a failure"
    return f"flota itself was killed while it stopped the workers after {cause}"


def format_without_report(histories: list[NodeHistory], early: Report | None, *, verbose: bool) -> list[str]:
    """flota itself was killed, or the job is still running. `early`: from when it began to stop."""
    report = early if early and early.failed else reconstruct_report(histories)
    names = ", ".join(history.node for history in histories)
    if any(map(is_running, histories)):
        return [f"job {report.job_id} is still running on {names}"]
    why = _killed_while_stopping(early) if early else "flota itself was killed"
    head = f"job {report.job_id} on {names} has no report because {why}. From its events and logs:"
    if not report.failed:
        return [head, "no worker failed before that"]
    return [head, *failure_report(report, verbose=verbose)]


def is_running(history: NodeHistory) -> bool:
    """A running job locks its directory, also from inside a container. Without locks, look for its process."""
    locked = is_locked(history.directory)
    if locked is not None:
        return locked
    pids = [event["pid"] for event in history.events if event["event"] == "job_started"]
    return history.node == os.uname().nodename and any(os.path.exists(f"/proc/{pid}") for pid in pids)
