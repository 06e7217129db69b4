"""`flota stack [RANK …]`: what each rank of a running job is waiting on."""

from __future__ import annotations

import os
from collections.abc import Callable

from flota.cli.build_spec import locate_log_dir
from flota.cli.command_options import ANY, WITH_VALUE, Options, read_command
from flota.cli.convert import convert
from flota.cli.print_json import print_json
from flota.cli.settings import find_log_dir
from flota.errors import BadValue, CannotAsk, FlotaError, OnlyOnMachine
from flota.job.printable import printable, printable_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.control.client import JobClient
    from flota.hangs.wait_sites import RankPosition

    Stacks = tuple[
        tuple[str, ...], tuple[RankPosition, ...], str
    ]  # lines for people, ranks of this machine, all stacks

USAGE = """\
usage: flota stack [RANK …] [--native] [--watch[=SECONDS]] [--json]
                   [--job ID | --at HOST:PORT | --log_dir DIR]

Print what each rank of a running job is waiting on, including ranks on other
machines. Then print the stacks of the ranks on this machine, or only those of
the given ranks.

  --job ID            the job with this id, or with this pid; otherwise the job of
                      this directory, or the only one on this machine
  --at HOST:PORT      the job whose node listens there, with FLOTA_TOKEN: what its
                      ranks are waiting on, without their stacks
  --log_dir DIR       log directory of the job, a directory above it, or the
                      pattern given to --log_dir: 'runs/{job_id}/{time}' [log]
  --native            include C and C++ frames; pauses each worker briefly
  --watch[=SECONDS]   print what each rank is waiting on, every SECONDS [2s],
                      until the job ends or you press Ctrl-C
  --json              print JSON
"""
PERIOD = 2.0
ANSWER_TIME = 15.0  # seconds for all nodes to answer


def main(words: list[str]) -> int:
    options = read_command(
        words, USAGE, (*WITH_VALUE, "--log-dir", "--watch"), ("--native", "--watch", "--json"), most_words=ANY
    )
    if options is None:
        return 0
    ranks = tuple(int(str(convert("flota stack", "count", word))) for word in options.words)
    period = _period(options)
    where = options.given.get("--at")
    ask, has_ended = _remote(options, _job_at(where)) if where else _local(options, ranks)
    stacks = ask()
    if not period:
        _print(stacks, options, whole=True)
        return 0
    import time

    while True:
        _print(stacks, options, whole=False)
        time.sleep(period)
        try:
            stacks = ask()
        except FlotaError as error:  # no workers: the job restarts or has ended
            if has_ended():
                print("the job has ended")
                return 0
            stacks = (error.message,), (), ""


def _period(options: Options) -> float:
    """Of --watch, in seconds; 0: once."""
    word = options.given.get("--watch")
    if word is None:
        return PERIOD if "--watch" in options.switches else 0.0
    period = float(str(convert("--watch", "duration", word)))
    if not period:
        raise BadValue("--watch", word, "a duration above 0", "--watch=2s")
    return period


def _print(stacks: Stacks, options: Options, *, whole: bool) -> None:
    lines, positions, page = stacks
    if options.json:
        fields = ("role", "rank", "pid", "step", "kind", "words")
        ranks = [{name: getattr(one, name) for name in fields} for one in positions]
        print_json({"summary": lines, "ranks": ranks, **({"stacks": page} if whole else {})})
    elif whole:
        print(printable_lines(page), end="")
    else:
        import time

        print(time.strftime("%H:%M:%S"), *(f"  {printable(line)}" for line in lines), sep="\n", flush=True)


def _local(options: Options, ranks: tuple[int, ...]) -> tuple[Callable[[], Stacks], Callable[[], bool]]:
    from flota.hangs.running_job import StackReader, running_workers
    from flota.logs.directory import is_locked

    directory = _directory(options.given)
    if not running_workers(directory)[1] and (spare := _spare_of(directory)):
        return _remote(options, spare)
    reader = StackReader(directory, os.environ, ranks, native="--native" in options.switches)

    def ask() -> Stacks:
        lines, page = reader.ask(_steps, ask_job)
        return lines, reader.positions, page

    return ask, lambda: not is_locked(reader.log_dir)


def _directory(given: dict[str, str]) -> str:
    """The log directory of the job that is meant, which finds the job also if it runs in a container."""
    from flota.logs.directory import is_locked
    from flota.logs.find_runs import running_directory

    if "--job" not in given:
        place = (given["--log-dir"], "--log_dir") if "--log-dir" in given else find_log_dir(os.environ)
        directory = running_directory(*locate_log_dir(*place))
        if "--log-dir" in given or is_locked(directory):
            return directory
    from flota.cli.find_job import choose, running_nodes

    return choose(running_nodes(), given.get("--job", ""), os.getcwd()).status.job.log_dir


def _job_at(where: str) -> JobClient:
    from flota.cli.job_access import job_at

    return job_at(where, os.environ)


def _spare_of(directory: str) -> JobClient | None:
    """The job whose spare on this machine has this log directory."""
    from flota.cli.find_job import running_nodes
    from flota.control.client import JobClient
    from flota.control.status import SPARE

    found = [node for node in running_nodes() if node.status.job.log_dir == directory]
    return JobClient(found[0].client) if found and found[0].status.node.state == SPARE else None


def _remote(options: Options, job: JobClient) -> tuple[Callable[[], Stacks], Callable[[], bool]]:
    """The job of other machines."""
    from flota.hangs.question import POSITIONS
    from flota.stragglers.question import KIND

    for word in (*options.words[:1], *({"--native"} & options.switches)):
        raise OnlyOnMachine(word)

    def ask() -> Stacks:
        node = job.working_node()
        lines = tuple(line for kind in (KIND, POSITIONS) for line in node.ask_job(kind, ANSWER_TIME))
        return lines, (), "".join(f"{line}\n" for line in lines)

    return ask, lambda: not job.entry.status()  # which raises an error, if it has ended


def _steps(node: int, workers: list[RankPosition]) -> tuple[str, ...]:
    """Steps of all ranks: asked from all nodes, or read from the workers on this machine."""
    from flota.stragglers.detector import step_time
    from flota.stragglers.question import KIND, steps_in_words
    from flota.stragglers.step_times import heartbeat_of

    here = [step_time(one.rank, one.role, heartbeat_of(one.pid)) for one in workers]
    return ask_job(node, KIND) or steps_in_words(here)


def ask_job(node: int, kind: str) -> tuple[str, ...]:
    """Ask all nodes of a job, through the node on this machine (0: none). Empty for a job of one node."""
    from flota.control.client import NodeClient

    try:
        return NodeClient(node).ask_job(kind, ANSWER_TIME) if node else ()
    except CannotAsk:
        return ()  # a job of one node, or one that has just ended
