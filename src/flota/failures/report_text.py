"""The failure report: the worker that failed first in detail, then one line per group of others. Pure."""

from __future__ import annotations

from flota.failures.last_output import shorten
from flota.humanize import (
    clock_in_words,
    counts_in_words,
    duration_in_words,
    ending_in_words,
    list_in_words,
    noun,
    workers_in_words,
)
from flota.job.causes import HUNG, LEFT_EARLY, LOST_CONNECTION, NOT_STARTED, SHEPHERD_LOST, is_hang
from flota.job.report import MOST_RESTARTS, NO_STEP, FailedWorker, Report, exception_message
from flota.job.roles import TRAINER, label

MOST_LINES = 25
SECONDARY_LINES = 6
MOST_NAMED = 4  # workers that also failed on their own, restarts


def failure_report(report: Report, *, verbose: bool = False) -> list[str]:
    """At most 25 lines, or with `verbose` every failure in full."""
    first, *others = report.failed
    failed = [failed.rank for failed in report.failed if failed.rank >= 0 and failed.role == first.role]
    rest = (*others, *report.secondary) if verbose else ()
    culprit = [
        *([abort_line(report.sizes.get(first.role, 0), failed, first.role)] if failed else []),
        culprit_in_words(first, name_host=report.several),
        *_details(first, name_host=report.several),
    ]
    summaries = [
        *(_folded("finished successfully before that", list(report.ended)) if first.cause == LOST_CONNECTION else []),
        *_also_failed(others, name_host=report.several),
        *_folded("failed as a consequence", [(one.role, one.rank) for one in report.secondary]),
        *([f"not restarted: {report.verdict.reason}"] if report.verdict.reason else []),
        *(f"before that: {words}" for words in restarts_in_words(report)),
        *_folded("stopped by flota", list(report.stopped)),
    ]
    secondary = _first_secondary(report, MOST_LINES - len(culprit) - len(summaries))
    in_full = [line for one in rest for line in _in_full(one, name_host=report.several)]
    return [*culprit, *secondary, *summaries, *in_full]


def restart_details(culprit: FailedWorker) -> list[str]:
    """The lines below a restart message: the exception's message and the log."""
    return [*exception_message(culprit), *([f"log: {culprit.log}"] if culprit.log else [])]


def restarts_in_words(report: Report) -> list[str]:
    """For example `2 restarts: rank 2 FileNotFoundError at 0m40s, rank 0 SIGKILL at 1m02s`; then node changes."""
    counted, others = [
        [
            f"{one.reason} at {clock_in_words(max(0.0, one.at - report.began))}"
            for one in report.restarts
            if one.counted is kind
        ]
        for kind in (True, False)
    ]
    # The list is limited; a scheduler's restarts are attempts as well, but not in it.
    count = len(counted) if len(report.restarts) < MOST_RESTARTS else max(report.verdict.attempt, len(counted))
    restarts = counts_in_words({"restart": count})
    return [
        *([f"{restarts}: {list_in_words(counted, MOST_NAMED)}"] if counted else []),
        *([list_in_words(others, MOST_NAMED)] if others else []),
    ]


def culprit_in_words(failed: FailedWorker, *, name_host: bool = False, first: bool = True) -> str:
    """The line that names the culprit. `first`: among others that failed."""
    ran = round(failed.ran, 3)  # as report.json has it, so that `flota why` prints the same
    who, after = label(failed.role, failed.rank), f"after {duration_in_words(ran)}"
    where = f" on {failed.node}" if name_host and failed.node else ""
    ending = failed.ending or ending_in_words(failed.code)
    if failed.cause == SHEPHERD_LOST:
        end = ending_in_words(failed.code)
        return f"flota's own shepherd process{where} died: {end}; its workers were stopped"
    if is_hang(failed.code, failed.cause) and failed.cause == LEFT_EARLY:
        return f"{who}{where} exited too early: exit code 0 {after}, while others were waiting for it"
    if failed.cause == HUNG:
        return f"{f'{who}{where}' if failed.rank >= 0 else 'the job'} hung: detected {after}"
    if failed.cause == NOT_STARTED:
        return f"{who}{where} could not be started"
    how = "exited too early" if failed.code == 0 else "failed first" if first else "failed"
    return f"{who}{where} {how}: {ending} {after}"


def _details(failed: FailedWorker, *, name_host: bool) -> list[str]:
    """Its process, last output, log and hint."""
    step = f", last step {failed.step}" if failed.step != NO_STEP else ""
    facts = f"  pid {failed.pid}, attempt {failed.attempt}{step}" if failed.pid else ""
    return [
        *([facts] if facts else []),
        *(f"  {line}" for line in failed.said),
        *([f"memory: {failed.evidence}"] if failed.evidence else []),
        *([f"log{f' on {failed.node}' if name_host else ''}: {failed.log}"] if failed.log else []),
        *([f"hint: {failed.hint}"] if failed.hint else []),
    ]


def _first_secondary(report: Report, room: int) -> list[str]:
    """If the culprit exited with 0, its output does not show the consequences: show the first. `room`: lines left."""
    if report.failed[0].code != 0 or not report.secondary:
        return []
    secondary = report.secondary[0]
    where = f" on {secondary.node}" if report.several else ""
    head = f"then {label(secondary.role, secondary.rank)}{where} failed with {secondary.ending}:"
    return [head, *(f"  {line}" for line in shorten(list(secondary.said), min(SECONDARY_LINES, room - 1)))]


def _also_failed(others: list[FailedWorker], *, name_host: bool) -> list[str]:
    hung = [(one.role, one.rank) for one in others if is_hang(one.code, one.cause)]
    others = [one for one in others if not is_hang(one.code, one.cause)]
    if not others:
        return _folded("also hung", hung)
    named = [_in_short(one, name_host=name_host) for one in others[:MOST_NAMED]]
    more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
    return [*_folded("also hung", hung), f"also failed on their own: {', '.join(named)}{more}"]


def _in_short(failed: FailedWorker, *, name_host: bool) -> str:
    return f"{label(failed.role, failed.rank)}{f' on {failed.node}' if name_host else ''} with {failed.ending}"


def _folded(words: str, workers: list[tuple[str, int]]) -> list[str]:
    return [f"{words}: {workers_in_words(workers)}"] if workers else []


def _in_full(failed: FailedWorker, *, name_host: bool) -> list[str]:
    head = culprit_in_words(failed, name_host=name_host, first=False)
    return ["", f"{head}{' (as a consequence)' if failed.is_secondary else ''}", *_details(failed, name_host=name_host)]


def abort_line(size: int, ranks: list[int], role: str = TRAINER) -> str:
    """Paddle's line, which programs look for."""
    listed = ",".join(str(rank) for rank in sorted(ranks))
    who = f"Out of all {size} {noun(role, size)}, the" if size > 1 else "The"
    return f"ABORT!!! {who} {role} process with rank=[{listed}] was aborted. Please check its log."
