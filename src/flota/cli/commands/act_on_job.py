"""`flota stop`, `flota restart` and `flota drain NODE`: act on a running job, on all its machines."""

import os

from flota.cli.command_options import WITH_VALUE, read_command
from flota.cli.find_job import find_job
from flota.cli.print_json import print_json
from flota.control.client import JobClient, NodeClient
from flota.errors import MissingNode, SeveralNodes, UnknownNode
from flota.job.printable import printable

JOB = """
  --job ID         the job with this id, or with this pid; otherwise the job of
                   this directory, or the only one on this machine
  --at HOST:PORT   the job whose node listens there, with FLOTA_TOKEN
  --json           print JSON
"""
STOP = f"""\
usage: flota stop [--job ID] [--at HOST:PORT] [--json]

Stop a running job on all its machines, also an elastic one: ranks that can save
are asked to save at the same step, and all others get SIGTERM and the grace
period.
{JOB}"""
RESTART = f"""\
usage: flota restart [--job ID] [--at HOST:PORT] [--json]

Restart all workers of a running job, on all its machines. They get SIGTERM, and
SIGKILL after the grace period. This does not count for --max_restart.
{JOB}"""
DRAIN = f"""\
usage: flota drain NODE [--job ID] [--at HOST:PORT] [--json]

Let one node leave a running job. NODE is its number or its host name; of a spare,
its host name. The others go on without it in an elastic job (--nnodes MIN:MAX), with a spare (--spares), or
wait for a node that takes its place in a job with --max_restart.
{JOB}"""


def stop(words: list[str]) -> int:
    return act_on_job(words, STOP, "stop")


def restart(words: list[str]) -> int:
    return act_on_job(words, RESTART, "restart")


def drain(words: list[str]) -> int:
    return act_on_job(words, DRAIN, "leave", takes_node=True)


def act_on_job(words: list[str], usage: str, verb: str, *, takes_node: bool = False) -> int:
    """`verb`: as in the control API. `takes_node`: it is about the node that the only word names."""
    options = read_command(words, usage, WITH_VALUE, ("--json",), most_words=int(takes_node))
    if options is None:
        return 0
    if takes_node and not options.words:
        raise MissingNode
    job = find_job(options.given, os.environ)
    node = choose_node(job, options.words[0]) if takes_node else job.working_node()
    message = node.act(verb)
    if options.json:
        print_json({"message": message})
    else:
        print(f"flota: {message}")
    return 0


def choose_node(job: JobClient, name: str) -> NodeClient:
    """The node with this number or host name. Spares have no numbers, and those of one host are equal."""
    status = job.entry.status()
    found = [place for place in status.job.nodes if name in (str(place.seat), place.host)]
    spares = [place for place in status.job.spares if place.host == name][:1]
    if len(found) + len(spares) != 1:
        names = [f"{place.seat} ({printable(place.host)})" for place in status.job.nodes]
        names += [f"{printable(place.host)} (spare)" for place in status.job.spares]
        raise (SeveralNodes if found else UnknownNode)(printable(name), ", ".join(names))
    is_own = (found or spares)[0].seat == status.node.seat and (found or status.node.host == name)
    return job.entry if is_own else job.node((found or spares)[0])
