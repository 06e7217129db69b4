"""flota.launch: runs a job like the command, from a Python program.

The job's node runs in a separate process: it needs signal handlers and waits for all its children, which would disturb
the caller. The process is started and stopped like a worker.
"""

import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from flota.cli.build_spec import make_spec
from flota.cli.flags import ALIAS_OF, BY_NAME, find_flag
from flota.cli.main import configuration, run_job, startup_notes
from flota.cli.parse import CommandLine, nearest, parse
from flota.cli.settings import NEVER_IN_ENVIRONMENT, Request, read_request, to_words
from flota.errors import FlotaError, RefusedFlag
from flota.errors.spawning import BadOption, NodeLost, UnknownOption
from flota.host.process_start import ProcessSpec
from flota.humanize import ending_in_words
from flota.job.report import Report
from flota.spawning.pickled_call import anonymous_file, interpreter_command
from flota.spawning.spawn_call import check_guard
from flota.spawning.supervisor_client import SupervisorClient
from flota.spawning.supervisor_process import SpawnRequest
from flota.spawning.worker_process import read_all

EXTRA_GRACE = 10.0  # seconds, added to the job's own grace
REFUSED = (*NEVER_IN_ENVIRONMENT, "interactive")


def launch(script_or_module: str | os.PathLike[str], args: Sequence[object] = (), **spec: Any) -> Report:
    """Run a script or a module as the command `flota` does, and return the report.

    Flags are keyword arguments: `flota.launch("train.py", ["--lr", 0.1], nproc_per_node=2, log_dir="out")`. Environment
    variables and flota.toml apply as for the command. Raises FlotaError if the job cannot be started.
    """
    check_guard()
    request = read_settings(script_or_module, args, spec)
    job = make_spec(request)
    work = (job, request.environ, configuration(request, job), startup_notes(request, job))
    client = SupervisorClient(1, daemon=False)
    with ExitStack() as files:
        with client.starting():
            fds = anonymous_file(files, pickle.dumps(work)), anonymous_file(files)
            stdout, stderr = client.open_outputs()
            body = f"from flota.spawning.launch import main; main{fds}"
            node = ProcessSpec(interpreter_command(body, bare=True), request.environ, stdout, stderr, fds)
            client.start(SpawnRequest((node,), job.grace + EXTRA_GRACE), request.environ)
        client.wait()
        content = read_all(fds[1])
    if not content:
        raise NodeLost(ending_in_words(client.codes.get(0, client.node_code)))
    outcome = pickle.loads(content)  # noqa: S301  written by our own node
    if isinstance(outcome, FlotaError):
        raise outcome
    assert isinstance(outcome, Report)
    return outcome


def read_settings(script: str | os.PathLike[str], args: Sequence[object], keywords: Mapping[str, object]) -> Request:
    """Read the settings as the command does from its arguments, variables and config file."""
    name = os.fspath(script) if isinstance(script, (str, os.PathLike)) else None
    if not isinstance(name, str) or "\0" in name:
        raise BadOption("script", script, "a path or a module name", "flota.launch('train.py')")
    if "module" not in keywords and is_module(name):
        keywords = {**keywords, "module": True}
    return read_request(command_line(name, args, keywords), sys.executable)


def command_line(script: str, args: Sequence[object], keywords: Mapping[str, object]) -> CommandLine:
    """Convert the arguments to a command line. A value of None means that the flag is not given."""
    flags: list[str] = []
    for name, value in keywords.items():
        flag = find_flag(name)
        if flag is None:
            known = [flag_name.replace("-", "_") for flag_name in (*BY_NAME, *ALIAS_OF)]
            raise UnknownOption("launch", name, nearest(name, known))
        if flag.dest in REFUSED:
            raise RefusedFlag(name, "it is for use in a terminal", f"run `flota --{flag.name}` there")
        if isinstance(value, dict) and flag.kind != "env":
            raise RefusedFlag(name, "only env takes a dictionary", "pass a string, a number or a list")
        if value is not None:
            flags += [f"--{name}={word}" for word in to_words(value, one_each=flag.kind == "env")]
    if isinstance(args, (str, bytes)) or not hasattr(args, "__iter__"):
        raise BadOption("args", args, "a list", f"args=[{args!r}]")
    words = [str(arg) for arg in args]
    if any("\0" in word for word in words):
        raise BadOption("args", args, "arguments without a null character", 'args=["--lr", 0.1]')
    return parse([*flags, "--", script, *words])


def is_module(name: str) -> bool:
    """Whether this can only be a module: there is no such file, and its package can be imported."""
    if os.path.exists(name) or not all(part.isidentifier() for part in name.split(".")):
        return False
    from importlib.machinery import PathFinder

    return PathFinder.find_spec(name.partition(".")[0]) is not None


def main(job_fd: int, result_fd: int) -> None:
    """The program of the node's process: does what cli.main does after parsing its arguments."""
    for fd in (job_fd, result_fd):
        os.set_inheritable(fd, False)  # noqa: FBT003
    work = pickle.loads(read_all(job_fd))  # noqa: S301  written by our own caller
    outcome: Report | FlotaError
    try:
        outcome = run_job(*work)
    except FlotaError as error:
        outcome = error
    os.write(result_fd, pickle.dumps(outcome))
    os._exit(outcome.exit_code)
