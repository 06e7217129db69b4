"""`flota dashboard`: serves the page of a running or finished job."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable

from flota.cli.build_spec import absolute
from flota.cli.command_options import WITH_VALUE, Options, read_command
from flota.cli.commands.why import expand
from flota.cli.convert import convert
from flota.cli.find_job import choose, find_job, is_of, running_nodes
from flota.cli.print_json import print_json
from flota.cli.settings import find_log_dir
from flota.control.client import JobClient, NodeClient
from flota.dashboard.finished_job import FinishedJob
from flota.dashboard.job_source import JobSource
from flota.dashboard.live_job import LiveJob
from flota.dashboard.web_server import PageServer
from flota.errors import BadValue, CannotAsk, CannotListen, NoReport
from flota.host.process_start import die_with_parent

USAGE = """\
usage: flota dashboard [LOG_DIR] [--job ID] [--at HOST:PORT] [--listen ADDR:PORT]

Serve a page about a running job, or about the finished job in a log directory,
and print its link. The page shows progress, ranks, nodes, rounds, logs and
stacks. The link contains a token, with which one can also stop the job. It is
printed without the token if the output is not a terminal.
Without arguments, it is the job of this directory, or the only one on this
machine. It is served until Ctrl-C, or until 10 minutes after the job's end.

  --job ID             the job with this id, or with this pid
  --at HOST:PORT       the job whose node listens there, with FLOTA_TOKEN
  --listen ADDR:PORT   where to serve it; not encrypted [127.0.0.1, any port]
  --json               print the link as JSON, with the token
"""
NODE_TIME = 120.0  # seconds until a node that does not answer is given up
LINGER = 600.0  # seconds after the job's end
NICENESS = 10  # of the server that a node has started: the workers come first
CHECK_INTERVAL = 5.0  # seconds between checks whether to end


def main(words: list[str]) -> int:
    options = read_command(words, USAGE, (*WITH_VALUE, "--listen", "--parent"), ("--json",), most_words=1)
    if options is None:
        return 0
    gc.enable()  # disabled by cli/main.py
    if "--parent" in options.given:  # the node that has started this command
        os.nice(NICENESS)
        die_with_parent(int(options.given["--parent"]))
    address, port = _where_to_listen(options.given.get("--listen", "on"))
    try:
        server = PageServer(address, port)
    except OSError as error:
        raise CannotListen(f"{address}:{port}", (error.strerror or str(error)).lower()) from None
    source = find_source(options, lambda finished: _on_end(server, finished))
    server.source = server.source or source  # unless the job has ended already
    _print_link(server, options)
    if not address.startswith("127.") and address not in ("::1", "localhost"):
        print("flota: warning: the page is not encrypted: use it in a network that you trust", file=sys.stderr)
    server.serve_forever(CHECK_INTERVAL)
    return 0


def _print_link(server: PageServer, options: Options) -> None:
    """With the token only on a terminal, in JSON, or for the node that has started this command: a file may be read by
    others."""
    if options.json:
        print_json({"link": server.link})
    elif sys.stdout.isatty() or "--parent" in options.given:
        print(server.link)
    else:
        print(f"{server.link.partition('=')[0]}=TOKEN")
        print("flota: the token is printed on a terminal only: to print it anywhere, use --json", file=sys.stderr)
    sys.stdout.flush()


def _where_to_listen(word: str) -> tuple[str, int]:
    found = convert("--listen", "listen", word)
    if not isinstance(found, tuple):
        raise BadValue("--listen", word, "an address and a port", "--listen 127.0.0.1:8080")
    address, port = found
    return str(address), int(port)


def find_source(options: Options, on_end: Callable[[JobSource | None], object]) -> JobSource:
    def live(client: JobClient) -> LiveJob:
        return LiveJob(client, dict(os.environ), on_end)

    if "--parent" in options.given:
        return live(_reach_node(int(options.given["--parent"])))
    if options.words:
        directories = [absolute(path) for path in expand(options.words[0], "flota dashboard")]
        running = [node for node in running_nodes() if node.status.job.log_dir in directories]
        return live(JobClient(running[0].client)) if running else FinishedJob(directories)
    if {*WITH_VALUE} & options.given.keys():
        return live(find_job(options.given, os.environ))
    nodes, here = running_nodes(), os.getcwd()
    if not any(is_of(node, here) for node in nodes):
        try:
            return FinishedJob(expand(*find_log_dir(os.environ)))
        except NoReport:
            pass  # another job of this machine may be meant
    return live(JobClient(choose(nodes, "", here).client))


def _reach_node(pid: int) -> JobClient:
    """The node that has started this command. It may be busy with the start of many workers."""
    give_up = time.monotonic() + NODE_TIME
    while True:
        client = JobClient(NodeClient(pid))
        try:
            client.entry.status()
        except CannotAsk:
            if time.monotonic() >= give_up:
                raise
            time.sleep(1.0)
        else:
            return client


def _on_end(server: PageServer, finished: JobSource | None) -> None:
    """Show the finished job, and shut down later."""
    server.source = finished or server.source
    timer = threading.Timer(LINGER, server.shutdown)
    timer.daemon = True
    timer.start()
