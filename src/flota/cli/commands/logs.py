"""`flota logs`: shows the output of any ranks of a running or finished job."""

from __future__ import annotations

import gc
import os
import re
import sys
import time

from flota.cli.command_options import WITH_VALUE, Options, read_command
from flota.cli.commands.why import expand
from flota.cli.convert import convert
from flota.cli.find_job import choose, finished_runs, running_nodes
from flota.cli.job_access import job_at
from flota.cli.settings import find_log_dir
from flota.control.client import JobClient
from flota.control.finished_logs import find_finished
from flota.control.running_logs import RunningLogs
from flota.errors import BadValue, NoJobHere, NoLogs, UnknownJob
from flota.job.printable import printable
from flota.logs.choose_ranks import Choice, parse_ranks
from flota.logs.rank_log import LinePrinter, RankLog, show_spans

USAGE = """\
usage: flota logs [-f] [--rank RANKS] [--role NAME] [--node NODE] [--all]
                  [--since TIME] [--grep RE] [--fold | --no-fold] [--json]
                  [--job ID | --at HOST:PORT | --log_dir DIR]

Print the output of ranks of the last job: of a running one from all its
machines, or of a finished one from its log directory. Without options, print
the output of rank 0. Lines of several ranks are merged by time.

  -f, --follow      go on until the job ends
  --rank RANKS      these ranks, such as 3,5-7
  --role NAME       all ranks of a role, or those given with --rank
  --node NODE       the ranks of a node, by its number or host name
  --all             all ranks
  --since TIME      the last 30s, 5m or 2h; of a finished job, before its end
  --grep RE         only lines that match a regular expression of Python
  --fold            print a line that several ranks print in the same second
                    once, with their ranks; the default on a terminal
  --no-fold         print it for each rank
  --json            print one JSON object per line
  --job ID          the job with this id, or with this pid
  --at HOST:PORT    the job whose node listens there, with FLOTA_TOKEN
  --log_dir DIR     the job with this log directory, or a directory with the
                    log directories of its nodes
"""
VALUES = (*WITH_VALUE, "--rank", "--role", "--node", "--since", "--grep", "--log-dir")
SWITCHES = ("-f", "--follow", "--all", "--fold", "--no-fold", "--json")


def main(words: list[str]) -> int:
    options = read_command(words, USAGE, VALUES, SWITCHES)
    if options is None:
        return 0
    gc.enable()  # disabled by cli/main.py; following may take days
    choice, pattern, since = _choice(options), _pattern(options.given.get("--grep")), _since(options.given)
    job = _running_job(options.given)
    if job is None:
        return _show_finished(options, choice, pattern, since)
    running = RunningLogs(job, choice, _warn)
    timed = bool(choice.all or choice.node or choice.role or since or options.json)
    follow = bool({"-f", "--follow"} & options.switches)
    logs = running.find(timed=timed or len(choice.ranks or ()) > 1, follow=follow)
    printer = _printer(options, logs, pattern)
    show_spans(logs, printer, time.time() - since if since else 0.0)
    if follow:
        printer.flush()
        running.follow(printer)
    else:
        _finish(logs, printer)
        running.check()
    return 0


def _choice(options: Options) -> Choice:
    word = options.given.get("--rank")
    try:
        ranks = None if word is None else parse_ranks(word)
    except ValueError:
        raise BadValue("--rank", word or "", "ranks", "--rank 3,5-7") from None
    return Choice(ranks, options.given.get("--role"), options.given.get("--node"), "--all" in options.switches)


def _pattern(text: str | None) -> re.Pattern[bytes] | None:
    try:
        return None if text is None else re.compile(os.fsencode(text))
    except re.error as error:
        raise BadValue("--grep", text or "", f"a regular expression ({error})", "--grep 'loss.*nan'") from None


def _since(given: dict[str, str]) -> float:
    """In seconds; 0: from the beginning."""
    return float(str(convert("--since", "duration", given["--since"]))) if "--since" in given else 0.0


def _running_job(given: dict[str, str]) -> JobClient | None:
    """The running job that is meant; None: a finished one. A job of this directory comes first, running or not."""
    if "--at" in given:
        return job_at(given["--at"], os.environ)
    nodes, here = running_nodes(), os.getcwd()
    if "--log-dir" in given:
        nodes = [node for node in nodes if _is_same(node.status.job.log_dir, given["--log-dir"])]
        return JobClient(choose(nodes, given.get("--job", ""), here).client) if nodes else None
    try:
        if "--job" not in given and not any(node.status.job.directory == here for node in nodes):
            return None if find_finished(_directories(given))[0] else JobClient(choose(nodes, "", here).client)
        return JobClient(choose(nodes, given.get("--job", ""), here).client)
    except (NoJobHere, UnknownJob):
        if _directories(given):
            return None
        raise


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _directories(given: dict[str, str]) -> list[str]:
    """Where a finished job may have left its logs."""
    if "--job" in given and "--log-dir" not in given:
        return finished_runs(given["--job"])
    return expand(given["--log-dir"], "--log_dir") if "--log-dir" in given else expand(*find_log_dir(os.environ))


def _show_finished(options: Options, choice: Choice, pattern: re.Pattern[bytes] | None, since: float) -> int:
    directories = _directories(options.given)
    found, ended = find_finished(directories)
    if not found:
        raise NoLogs(", ".join(directories) or options.given.get("--log-dir", "log"))
    speakers = [log.speaker for log in found]
    choice = choice.completed(speakers)
    choice.check(speakers)
    logs = [log for log in found if choice.has(log.speaker)]
    printer = _printer(options, logs, pattern)
    show_spans(logs, printer, ended - since if since else 0.0)
    _finish(logs, printer)
    return 0


def _printer(options: Options, logs: list[RankLog], pattern: re.Pattern[bytes] | None) -> LinePrinter:
    terminal = sys.stdout.isatty()
    return LinePrinter(
        sys.stdout.buffer,
        several=len({log.speaker for log in logs}) > 1,
        coloured=terminal and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR"),
        folds=(terminal or "--fold" in options.switches) and "--no-fold" not in options.switches,
        pattern=pattern,
        json=options.json,
    )


def _finish(logs: list[RankLog], printer: LinePrinter) -> None:
    printer.show([(log, b"") for log in logs], last=True)
    printer.flush()


def _warn(text: str) -> None:
    sys.stderr.write(f"flota: warning: {printable(text)}\n")
