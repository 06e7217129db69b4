"""`flota ps`: lists running jobs of this user on this machine, with `-a` also the finished ones in this directory."""

import os
import sys
import time

from flota.cli.command_options import read_command
from flota.cli.find_job import RunningNode, running_nodes
from flota.cli.job_access import job_at
from flota.cli.print_json import print_json
from flota.cli.table import table
from flota.control.status import SPARE, JobStatus, NodeStatus
from flota.humanize import duration_in_words
from flota.job.printable import printable
from flota.job.report import NO_STEP, Report
from flota.logs.find_runs import finished_reports

USAGE = """\
usage: flota ps [-a] [--at HOST:PORT] [--json]

List the running jobs of this user on this machine: their id, state, nodes,
ranks, attempt, steps, age, and where their logs are. --json names all nodes.

  -a, --all        also list finished jobs whose logs are in this directory
  --at HOST:PORT   the job whose node listens there, with FLOTA_TOKEN
  --json           print JSON
"""
HEAD = ("JOB", "PID", "STATE", "NODES", "RANKS", "ATTEMPT", "STEP", "AGE", "LOG DIR")
MOST_HOSTS = 4  # named in the table


def main(words: list[str]) -> int:
    options = read_command(words, USAGE, ("--at",), ("-a", "--all", "--json"))
    if options is None:
        return 0
    if "--at" in options.given:
        client = job_at(options.given["--at"], os.environ).entry
        nodes = [RunningNode(0, client, client.status())]
    else:
        nodes = running_nodes()
    rows = [_as_dict(node.status.job, node.status.node) for node in nodes]
    if {"-a", "--all"} & options.switches:
        running = {row["log_dir"] for row in rows}
        rows = [*(_of_report(*one) for one in finished_reports(os.getcwd()) if one[0] not in running), *rows]
    if options.json:
        print_json(rows)
    elif rows:
        print("\n".join(table([HEAD, *map(row_of, rows)])))
    else:
        print("no running jobs", file=sys.stderr)
    return 0


def _as_dict(job: JobStatus, node: NodeStatus) -> dict[str, object]:
    """`steps`: the least and the greatest step of the ranks on this node."""
    steps = sorted(rank.step for rank in node.ranks if rank.step != NO_STEP)
    places = (*job.nodes, *job.spares)
    return {
        "job_id": job.job_id,
        "pid": node.pid,
        "state": SPARE if node.state == SPARE else job.state,
        "nodes": len(job.nodes),
        "hosts": [place.host for place in job.nodes],
        "spares": [place.host for place in job.spares],
        "ranks": job.world_size,
        "attempt": job.attempt,
        "restarts": len(job.restarts),
        "steps": [steps[0], steps[-1]] if steps else [],
        "total": max((rank.total for rank in node.ranks), default=0),
        "began": job.began,
        "endpoint": next((one.endpoint for one in places if (one.seat, one.host) == (node.seat, node.host)), ""),
        "log_dir": job.log_dir,
    }


def _of_report(directory: str, report: Report) -> dict[str, object]:
    steps = [one.step for one in report.failed if one.step != NO_STEP]
    return {
        "job_id": report.job_id,
        "pid": None,
        "state": report.verdict.kind,
        "nodes": None if report.several else 1,
        "hosts": [],
        "ranks": report.workers,
        "attempt": report.verdict.attempt,
        "restarts": len(report.restarts),
        "steps": [min(steps), max(steps)] if steps else [],
        "total": 0,
        "began": report.began,
        "exit_code": report.exit_code,
        "log_dir": directory,
    }


def row_of(facts: dict[str, object]) -> tuple[str, ...]:
    steps, total, began = facts["steps"], facts["total"], facts["began"]
    assert isinstance(steps, list)
    assert isinstance(began, float)
    step = "-".join(dict.fromkeys(f"{step:,}" for step in steps)) + (f"/{total:,}" if steps and total else "")
    age = duration_in_words(time.time() - began) if facts["pid"] else _moment(began)
    facts = {**facts, "nodes": _nodes(facts["nodes"], facts["hosts"], facts.get("spares"))}
    names = ("job_id", "pid", "state", "nodes", "ranks", "attempt")
    cells = ("-" if facts[name] is None else printable(str(facts[name])) for name in names)
    return (*cells, step or "-", age, printable(_short(str(facts["log_dir"]))))


def _nodes(count: object, hosts: object, spares: object) -> object:
    """For example `2+1 (gpu01, gpu02)`, with one spare."""
    assert isinstance(hosts, list)
    number = f"{count}+{len(spares)}" if isinstance(spares, list) and spares else count
    return f"{number} ({', '.join(hosts)})" if 1 < len(hosts) <= MOST_HOSTS else number


def _moment(began: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(began))


def _short(path: str) -> str:
    here = f"{os.getcwd()}/"
    return path.removeprefix(here) if path.startswith(here) else path
