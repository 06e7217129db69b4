"""`flota top`: the live view of a running job."""

from __future__ import annotations

import os
import sys

from flota.cli.command_options import WITH_VALUE, read_command
from flota.cli.find_job import find_job
from flota.cli.print_json import print_json
from flota.cli.require_view import require_view
from flota.control.client import JobClient, NodeClient

USAGE = """\
usage: flota top [--job ID] [--at HOST:PORT] [--json]

Show a running job on the terminal: its progress, all ranks with their steps,
step times, CPU and memory, rounds and restarts with their causes, and the log of
the chosen rank. ? lists the keys; q leaves the view, and the job goes on.

  --job ID         the job with this id, or with this pid
  --at HOST:PORT   the job whose node listens there, with FLOTA_TOKEN
  --json           print the state of all nodes and ranks once, as JSON
"""
OF_NODE = "--of-node"  # the pid of the node that has started this view: run/view_process.py
OLD_TERMINALS = ("vt100", "vt102", "vt220")  # without colours and Unicode


def main(words: list[str]) -> int:
    options = read_command(words, USAGE, (*WITH_VALUE, OF_NODE), ("--json",))
    if options is None:
        return 0
    if options.json:
        print_json(find_job(options.given, os.environ).status())
        return 0
    require_view("flota top")
    node = options.given.get(OF_NODE, "")
    show(JobClient(NodeClient(int(node))) if node.isdecimal() else find_job(options.given, os.environ))
    return 0


def show(job: JobClient) -> None:
    is_old = os.environ.get("TERM", "") in OLD_TERMINALS
    if is_old:
        os.environ["NO_COLOR"] = "1"
    elif not os.environ.get("NO_COLOR"):
        os.environ.pop("NO_COLOR", None)  # textual also follows an empty one
    from flota.view.app import JobView

    is_unicode = "utf" in (sys.stdout.encoding or "").lower()
    JobView(job, [sys.executable, "-P", "-m", "flota"], ascii_only=is_old or not is_unicode).run(mouse=False)
