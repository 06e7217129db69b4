"""Finds the running job that a command means: that of this directory, or the only one; or by `--job` or `--at`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from flota.cli.job_access import job_at
from flota.control.client import JobClient, NodeClient, local_nodes
from flota.control.status import ENDED, Status
from flota.errors import CannotAsk, NoJobHere, SeveralJobs, UnknownJob
from flota.job.printable import printable
from flota.logs.find_runs import finished_reports
from flota.values import NamedTuple

ASKED_AT_ONCE = 16


class RunningNode(NamedTuple):
    """A node of this user on this machine."""

    pid: int
    client: NodeClient
    status: Status


def find_job(given: Mapping[str, str], environ: Mapping[str, str]) -> JobClient:
    if "--at" in given:
        return job_at(given["--at"], environ)
    return JobClient(choose(running_nodes(), given.get("--job", ""), os.getcwd()).client)


def finished_runs(job: str) -> list[str]:
    """The log directory of the last finished job with this id, if it is below this directory."""
    return [directory for directory, report in finished_reports(os.getcwd()) if report.job_id == job][-1:]


def running_nodes() -> list[RunningNode]:
    """All nodes that answer. Those of other users do not."""
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        return [node for node in pool.map(_ask, local_nodes()) if node]


def _ask(pid: int) -> RunningNode | None:
    client = NodeClient(pid)
    try:
        return RunningNode(pid, client, client.status())
    except CannotAsk:
        return None


def choose(nodes: list[RunningNode], job: str, directory: str) -> RunningNode:
    """A node of the job that is meant. A job that is ending comes after others."""
    if not nodes:
        raise NoJobHere
    names = ", ".join(sorted(f"{printable(node.status.job.job_id)} (pid {node.pid})" for node in nodes))
    if job:
        found = [node for node in nodes if job in (node.status.job.job_id, str(node.pid))]
        if not found:
            raise UnknownJob(printable(job), names)
    else:
        found = [node for node in nodes if is_of(node, directory)] or nodes
        found = [node for node in found if node.status.job.state != ENDED] or found
    if len({_identity(node.status) for node in found}) > 1:
        raise SeveralJobs(names)
    return found[0]


def is_of(node: RunningNode, directory: str) -> bool:
    """Whether its job was started in this directory, or has its logs there."""
    return directory in (node.status.job.directory, node.status.job.log_dir)


def _identity(status: Status) -> tuple[object, ...]:
    """What the nodes of one job have in common."""
    return status.job.job_id, status.job.run or status.node.pid
