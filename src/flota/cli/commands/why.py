"""`flota why`: print the report of a finished job again, or why a running one has restarted."""

from __future__ import annotations

import os
import time

from flota.cli.build_spec import locate_log_dir
from flota.cli.command_options import ANY, WITH_VALUE, Options, read_command
from flota.cli.print_json import print_json
from flota.cli.settings import find_log_dir
from flota.errors import NoJobHere, NoReport, UnknownJob
from flota.failures.report_from_logs import NodeHistory, find_histories, reconstruct_report
from flota.failures.report_text import failure_report
from flota.humanize import duration_in_words, list_in_words, signal_name
from flota.job.printable import printable
from flota.job.report import STOPPED, SUCCEEDED, Report, report_as_dict
from flota.logs.directory import is_locked
from flota.logs.find_runs import matching_runs
from flota.logs.parse_events import is_count
from flota.run.job_messages import stopped_message, success_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.control.status import JobStatus

USAGE = """\
usage: flota why [--verbose] [--json] [LOG_DIR …]
       flota why [--job ID] [--at HOST:PORT] [--json]

Print how the last job in a log directory ended: which worker failed first, why,
and its last output. LOG_DIR can be the directories of several nodes, a directory
that contains them, or the pattern that was given to --log_dir, such as
'runs/{job_id}/{time}', which selects the latest run. Of a running job, which
comes first in its directory, print why it has restarted.

  --log_dir DIR    the same as LOG_DIR [log]
  --verbose        print every failure in full, not only the first
  --job ID         the job with this id, running on this machine or finished
  --at HOST:PORT   the running job whose node listens there, with FLOTA_TOKEN
  --json           print JSON: a list of reports, as in report.json
"""


def main(words: list[str]) -> int:
    options = read_command(words, USAGE, (*WITH_VALUE, "--log-dir"), ("--verbose", "--json"), most_words=ANY)
    if options is None:
        return 0
    found = _find_job(options.given) if {*WITH_VALUE} & options.given.keys() else _find_here(options)
    if options.json:
        print_json([found] if not isinstance(found, list) else list(map(report_as_dict, reports_of(found))))
        return 0
    verbose = "--verbose" in options.switches
    lines = format_reports(found, verbose=verbose) if isinstance(found, list) else format_running(found)
    print("\n".join(map(printable, lines)))
    return 0


def _find_here(options: Options) -> JobStatus | list[NodeHistory]:
    """In this directory the running job comes first. Of given log directories, nodes are asked only if one runs."""
    if not options.words and not options.given:
        return _find_running(options) or _find_histories(options)
    histories = _find_histories(options)
    return (_find_running(options) if any(map(is_running, histories)) else None) or histories


def _find_running(options: Options) -> JobStatus | None:
    """The running job of this directory, or with the given log directories, if it answers."""
    from flota.cli.find_job import is_of, running_nodes
    from flota.control.status import ENDED

    given = [os.path.realpath(path) for path in (*options.words, *options.given.values())]
    asked = running_nodes()
    for node in asked:
        node.client.close()
    nodes = [node for node in asked if node.status.job.state != ENDED]
    if given:
        found = [node for node in nodes if os.path.realpath(node.status.job.log_dir) in given]
    else:
        found = [node for node in nodes if is_of(node, os.getcwd())]
    return max(found, key=lambda node: node.status.job.began).status.job if found else None


def _find_histories(options: Options) -> list[NodeHistory]:
    given = [(path, "flota why") for path in options.words]  # paths, each with its source
    given += [(options.given["--log-dir"], "--log_dir")] if "--log-dir" in options.given else []
    given = given or [find_log_dir(os.environ)]
    histories = find_histories([path for one in given for path in expand(*one)])
    if not histories:
        raise NoReport(given[0][0])
    return histories


def _find_job(given: dict[str, str]) -> JobStatus | list[NodeHistory]:
    """A running job, or with `--job` a finished one."""
    from flota.cli.find_job import find_job, finished_runs

    try:
        return find_job(given, os.environ).entry.status().job
    except (NoJobHere, UnknownJob):
        histories = find_histories(finished_runs(given["--job"]))
        if not histories:
            raise
        return histories


def expand(path: str, source: str) -> list[str]:
    """The runs that a path with placeholders has led to; any other path as it is."""
    base, template = locate_log_dir(path, source)
    return matching_runs(base, template) if template else [path]


def format_running(job: JobStatus) -> list[str]:
    """What is known of a job that has not ended."""
    from flota.view.text import restart_lines

    hosts = list_in_words([place.host for place in job.nodes])
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(job.began))
    head = f"job {job.job_id}, started {began}, logs in {job.log_dir}: {job.state} on {hosts}"
    message = f", {job.message}" if job.message else ""
    return [f"{head}{message}", *(restart_lines(job) if job.restarts else ["it has not restarted"])]


def reports_of(histories: list[NodeHistory]) -> list[Report]:
    """The different reports of the nodes; without any, what the logs tell."""
    found = [history.report for history in histories if history.report]
    return list({repr(report): report for report in found}.values()) or [reconstruct_report(histories)]


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
        return [f"{_job(report)}: {stopped_message(report)}"]
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
        rounds = [event.get("round") for one in histories for event in one.events if event["event"] == "round_started"]
        restarts = max(filter(is_count, rounds), default=0)
        after = f", after {restarts} restart{'s' * (restarts > 1)}" if restarts else ""
        return [f"job {report.job_id} is still running on {names}{after}"]
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
