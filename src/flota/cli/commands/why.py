"""`flota why`: the last screen of a finished job once more."""

import os

from flota.cli.build_spec import locate_log_dir
from flota.cli.settings import find_log_dir
from flota.errors import NoReport, UnknownFlag
from flota.failures.report_from_logs import Telling, find_tellings, piece_together
from flota.failures.report_text import failure_report
from flota.humanize import duration_in_words
from flota.job.report import STOPPED, SUCCEEDED, Report
from flota.logs.directory import is_locked
from flota.logs.find_runs import matching_runs
from flota.run.job_messages import stopped_message, success_message

USAGE = """\
usage: flota why [--verbose] [LOG_DIR …]

Prints how the last job of a log directory ended: who is to blame, of what, and what
it said last. Several nodes' directories may be given, or one that has them all, or
'runs/{job_id}/{time}' as it was given to --log_dir, for the latest run.

  --log_dir DIR   the same as LOG_DIR [that of a job started here: log]
  --verbose       all that is known of all who failed, not of the first alone
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
    tellings = find_tellings([path for one in given for path in expand(*one)])
    if not tellings:
        raise NoReport(given[0][0])
    print("\n".join(retold(tellings, verbose=verbose)))
    return 0


def expand(path: str, source: str) -> list[str]:
    """The runs that a path with placeholders has led to; any other path as it is."""
    base, template = locate_log_dir(path, source)
    return matching_runs(base, template) if template else [path]


def retold(tellings: list[Telling], *, verbose: bool) -> list[str]:
    """One page, which all nodes have; where some have another, or none, theirs too."""
    pages: dict[tuple[str, ...], list[str]] = {}
    for telling in tellings:
        if telling.report:
            pages.setdefault(tuple(page_of(telling.report, verbose=verbose)), []).append(telling.node)
    silent = [telling for telling in tellings if telling.report is None]
    lines: list[str] = []
    for page, nodes in pages.items():
        head = [f"{', '.join(filter(None, nodes))}:"] if len(pages) > 1 else []
        lines += [*([""] if lines else []), *head, *page]
    if silent and not pages:
        lines += unfinished(silent, verbose=verbose)
    elif silent:
        lines += ["", f"no report from {', '.join(telling.node for telling in silent)}"]
    return lines


def page_of(report: Report, *, verbose: bool) -> list[str]:
    verdict, took = report.verdict, duration_in_words(report.seconds)
    if verdict.kind == SUCCEEDED:
        return [f"job {report.job_id}: {success_message(report)}"]
    if verdict.kind == STOPPED:
        return [f"job {report.job_id}: {stopped_message(report, '')}"]
    if not report.failed:
        return [f"job {report.job_id}: {verdict.reason or verdict.kind} after {took}"]
    return failure_report(report, verbose=verbose)


def unfinished(silent: list[Telling], *, verbose: bool) -> list[str]:
    """flota itself was killed, or is still at work."""
    report = piece_together(silent)
    names = ", ".join(telling.node for telling in silent)
    if any(map(is_under_way, silent)):
        return [f"job {report.job_id} on {names} has not ended yet"]
    head = f"job {report.job_id} on {names} left no report: flota itself was ended. Its events and logs say:"
    if not report.failed:
        return [head, "no worker had failed"]
    return [head, *failure_report(report, verbose=verbose)]


def is_under_way(telling: Telling) -> bool:
    """A job holds its directory, also from within a container. Where there are no locks, its process must be here."""
    taken = is_locked(telling.directory)
    if taken is not None:
        return taken
    pids = [event["pid"] for event in telling.events if event["event"] == "job_started"]
    return telling.node == os.uname().nodename and any(os.path.exists(f"/proc/{pid}") for pid in pids)
