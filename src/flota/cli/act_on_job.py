"""Runs the commands that act on a running job: stop, restart, drain."""

from __future__ import annotations

import os

from flota.cli.command_options import read_options
from flota.cli.find_job import WITH_VALUE, find_job
from flota.control.client import JobClient, NodeClient
from flota.errors import MissingNode, TooManyWords, UnknownNode
from flota.job.printable import printable


def act_on_job(words: list[str], usage: str, verb: str, *, takes_node: bool = False) -> int:
    """`verb`: as in the control API. `takes_node`: it is about the node that the only word names."""
    options = read_options(words, WITH_VALUE, ("-h", "--help", "--json"))
    if {"-h", "--help"} & options.switches:
        print(usage, end="")
        return 0
    if takes_node and not options.words:
        raise MissingNode
    if len(options.words) > takes_node:
        raise TooManyWords(options.words[-1], usage.partition("\n")[0].removeprefix("usage: "))
    job = find_job(options.given, os.environ)
    node = choose_node(job, options.words[0]) if takes_node else job.entry
    message = node.act(verb)
    if "--json" in options.switches:
        import json

        print(json.dumps({"message": message}))
    else:
        print(f"flota: {message}")
    return 0


def choose_node(job: JobClient, name: str) -> NodeClient:
    """The node with this number or host name."""
    status = job.entry.status()
    found = [place for place in status.job.nodes if name in (str(place.seat), place.host)]
    if len(found) != 1:
        names = ", ".join(f"{place.seat} ({printable(place.host)})" for place in status.job.nodes)
        raise UnknownNode(printable(name), names)
    return job.entry if found[0].seat == status.node.seat else job.node(found[0])
