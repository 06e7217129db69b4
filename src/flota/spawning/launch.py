"""flota.launch: what the command does, for programs.

The job's node is a process of its own: it needs signal handlers, and owns all of its children, while the program has
both for itself. It is started and ended as a worker is.
"""

from __future__ import annotations

import os
import pickle
import sys

from flota.errors import FlotaError
from flota.errors.spawning import BadOption, NodeLost
from flota.host.process_start import ProcessSpec
from flota.job.report import Report
from flota.spawning.notebook_output import choose_outputs
from flota.spawning.pickled_call import file_with, interpreter_command
from flota.spawning.spawn_call import check_guard
from flota.spawning.supervisor_client import SupervisorClient
from flota.spawning.supervisor_process import Orders
from flota.spawning.worker_process import read_all
from flota.wording import ending_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from flota.cli.parse import CommandLine
    from flota.cli.settings import Settings
    from flota.job.spec import JobSpec

PATIENCE = 10.0  # seconds on top of the job's own grace


def launch(script_or_module: str | os.PathLike[str], args: Sequence[object] = (), **spec: Any) -> Report:
    """Run a script or a module as the command `flota` does, and give the report of how it ended.

    Flags are keyword arguments: `flota.launch("train.py", ["--lr", 0.1], nproc_per_node=2, log_dir="out")`. Variables
    and flota.toml count as they do for the command. Raises FlotaError where the command would not start anything.
    """
    check_guard()
    line, settings, environ = read(script_or_module, args, spec)
    from flota.cli.build_spec import make_spec
    from flota.cli.main import configuration, notes

    job = make_spec(line, settings, environ, sys.executable)
    work = (job, environ, configuration(line, settings, job.devices.chosen), notes(line, settings, job, environ))
    result = file_with(b"")
    try:
        link = start(job, environ, pickle.dumps(work), result)
        link.wait()
        content = read_all(result)
    finally:
        os.close(result)
    if not content:
        raise NodeLost(ending_in_words(link.codes.get(0, link.code)))
    ending = pickle.loads(content)  # noqa: S301  written by our own node
    if isinstance(ending, FlotaError):
        raise ending
    assert isinstance(ending, Report)
    return ending


def read(
    script: str | os.PathLike[str], args: Sequence[object], keywords: Mapping[str, object]
) -> tuple[CommandLine, Settings, dict[str, str]]:
    """As the command reads its argv, its variables and its config file."""
    from flota.cli.keywords import command_line
    from flota.cli.settings import gather, without_parents_variables

    name = os.fspath(script) if isinstance(script, (str, os.PathLike)) else None
    if not isinstance(name, str) or "\0" in name:
        raise BadOption("script", script, "a path or the name of a module", "flota.launch('train.py')")
    if "module" not in keywords and is_module(name):
        keywords = {**keywords, "module": True}
    line = command_line(name, args, keywords)
    environ = without_parents_variables(os.environ)
    settings = gather(line.given, environ, os.curdir)
    if "PADDLE_TRAINERS" in environ:
        from flota.cli.platform import ask_platform

        line, settings = ask_platform(line, settings, os.environ)
    return line, settings, environ


def is_module(name: str) -> bool:
    """Whether it can only be a module: no file of this name, and a package or module that could be imported."""
    if os.path.exists(name) or not all(part.isidentifier() for part in name.split(".")):
        return False
    from importlib.machinery import PathFinder

    return PathFinder.find_spec(name.partition(".")[0]) is not None


def start(job: JobSpec, environ: Mapping[str, str], work: bytes, result: int) -> SupervisorClient:
    sent = file_with(work)
    try:
        targets, forwarders = choose_outputs()
    except FlotaError:
        os.close(sent)
        raise
    body = f"from flota.spawning.launch import main; main({sent}, {result})"
    stdout, stderr = targets
    node = ProcessSpec(interpreter_command(body, bare=True), dict(environ), stdout, stderr, (sent, result))
    inherited = (sent, result, *(target for target in targets if target > 2))
    link = SupervisorClient(1, [], [], forwarders, daemon=False)
    try:
        link.start(Orders((node,), job.grace + PATIENCE, None, inherited=inherited), dict(environ), fork=False)
    finally:
        os.close(sent)
    return link


def main(sent: int, result: int) -> None:
    """The node's whole program: what cli.main does after the words are understood."""
    for fd in (sent, result):
        os.set_inheritable(fd, False)  # noqa: FBT003
    spec, environ, configuration, notes = pickle.loads(read_all(sent))  # noqa: S301  written by our own program
    from flota.run.start import run

    ending: Report | FlotaError
    try:
        ending = run(spec, environ, configuration, notes)
    except FlotaError as error:
        ending = error
    os.write(result, pickle.dumps(ending))
    os._exit(ending.exit_code)
