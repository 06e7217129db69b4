"""`flota stack [RANK …]`: what each rank of a running job is waiting on."""

from __future__ import annotations

import os

from flota.cli.build_spec import locate_log_dir
from flota.cli.convert import convert
from flota.cli.settings import find_log_dir
from flota.errors import BadValue, CannotAsk, FlotaError, UnknownFlag
from flota.job.printable import printable, printable_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.hangs.wait_sites import RankPosition

USAGE = """\
usage: flota stack [RANK …] [--log_dir DIR] [--native] [--watch[=SECONDS]]
       flota stack --at HOST:PORT

Print what each rank of a running job is waiting on, including ranks on other
machines. Then print the stacks of the ranks on this machine, or only those of
the given ranks.

  --log_dir DIR       log directory of the job, a directory above it, or the
                      pattern given to --log_dir: 'runs/{job_id}/{time}' [log]
  --native            include C and C++ frames; pauses each worker briefly
  --at HOST:PORT      ask the job whose node listens there, with FLOTA_TOKEN:
                      what its ranks are waiting on, without their stacks
  --watch[=SECONDS]   print what each rank is waiting on, every SECONDS [2s],
                      until the job ends or you press Ctrl-C
"""
PERIOD = 2.0
ANSWER_TIME = 15.0  # seconds for all nodes to answer


def main(words: list[str]) -> int:
    (directory, source), native, watch = ("", ""), False, 0.0
    ranks: list[int] = []
    following = iter(words)
    for word in following:
        name, equals, value = word.partition("=")
        name = name.replace("_", "-")
        if name in ("-h", "--help"):
            print(USAGE, end="")
            return 0
        if name == "--log-dir":
            directory, source = value if equals else next(following, ""), "--log_dir"
        elif name == "--at":
            return _show_remote(value if equals else next(following, ""))
        elif name == "--native" and not equals:
            native = True
        elif name == "--watch":
            watch = float(str(convert("--watch", "duration", value))) if equals else PERIOD
            if not watch:
                raise BadValue("--watch", value, "a duration above 0", "--watch=2s")
        elif name.startswith("-"):
            raise UnknownFlag(word, "one of --at, --log_dir, --native, --watch")
        else:
            ranks.append(int(str(convert("flota stack", "count", word))))
    if not source:
        directory, source = find_log_dir(os.environ)
    from flota.logs.find_runs import running_directory

    running = running_directory(*locate_log_dir(directory, source))
    return _show(running, tuple(ranks), native=native, watch=watch)


def _show(directory: str, ranks: tuple[int, ...], *, native: bool, watch: float) -> int:
    import time

    from flota.hangs.running_job import StackReader
    from flota.logs.directory import is_locked

    asker = StackReader(directory, os.environ, ranks, native=native)
    groups, page = asker.ask(_steps, ask_job)
    if not watch:
        print(printable_lines(page), end="")
        return 0
    while True:
        print(time.strftime("%H:%M:%S"), *(f"  {printable(line)}" for line in groups), sep="\n", flush=True)
        time.sleep(watch)
        try:
            groups, _ = asker.ask(_steps, ask_job)
        except FlotaError as error:  # no workers: the job restarts or has ended
            if not is_locked(asker.log_dir):
                print("the job has ended")
                return 0
            groups = (error.message,)


def _show_remote(where: str) -> int:
    from flota.control.client import job_at
    from flota.hangs.question import POSITIONS
    from flota.stragglers.question import KIND

    job = job_at(where, dict(os.environ))
    for kind in (KIND, POSITIONS):
        print(*job.entry.ask_job(kind, ANSWER_TIME), sep="\n")
    return 0


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
