"""Collects the status of this node: what the job does, and what each worker uses."""

from __future__ import annotations

import os
import time

from flota.control import status
from flota.control.status import (
    JobStatus,
    LogStatus,
    NodeLogs,
    NodePlace,
    NodeStatus,
    RankStatus,
    RestartStatus,
    SlowStatus,
    Status,
)
from flota.free_memory import machine_memory
from flota.host.kill_tree import stat_fields
from flota.job.report import NO_STEP
from flota.logs.log_parts import parts_of
from flota.supervise.supervisor import Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.run.node_watch import NodeWatch

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
USER, SYSTEM, RESIDENT = 11, 12, 21  # fields of /proc/PID/stat after the name
MOST_CHILDREN = 64  # of a worker, whose use is added to its own
NUMBER_NAME = 64  # characters


def node_status(node: NodeWatch) -> Status:
    overview = node.requests.overview()
    roster = overview.waits_in or (node.started.roster if node.evidence.rounds else None)
    job = JobStatus(
        status.VERSION,
        node.spec.job_id,
        status.ENDED if node.ending else overview.state or node_state(node),
        round=roster.round if roster else 0,
        attempt=roster.attempt if roster else 0,
        restart_limit=node.spec.restarts.limit if node.spec.restarts.enabled else 0,
        began=node.evidence.began + node.evidence.epoch,
        now=time.time(),
        world_size=roster.workers if roster else 0,
        log_dir=node.spec.log.directory,
        directory=os.getcwd(),
        command=(node.spec.command.target, *node.spec.command.args),
        nodes=tuple(NodePlace(number, *place) for number, place in enumerate(overview.places)),
        restarts=tuple(RestartStatus(*past) for past in overview.restarts),
        slow=tuple(SlowStatus(*one) for one in overview.slow),
        message=node.ending or overview.message,
        spares=tuple(NodePlace(-1, *place) for place in overview.spares),
        run=overview.run,
    )
    return Status(job, _own_status(node, overview.store_seconds, is_spare=overview.waits_in is not None))


def node_state(node: NodeWatch) -> str:
    if node.control.has_ended:
        return status.ENDED
    if not node.in_round:
        return status.RESTARTING if node.evidence.rounds else status.WAITING
    return status.RUNNING if node.supervisor.phase == Phase.RUNNING else status.STOPPING


def _own_status(node: NodeWatch, store_seconds: float | None, *, is_spare: bool) -> NodeStatus:
    works = bool(node.evidence.rounds) and not is_spare
    seat = -1 if is_spare else node.started.seat if works else 0
    memory = machine_memory()
    total = memory.get("MemTotal", 0)
    return NodeStatus(
        os.uname().nodename,
        os.getpid(),
        seat,
        status.SPARE if is_spare else node_state(node),
        node.spec.address,
        os.cpu_count() or 1,
        round(os.getloadavg()[0], 2),
        total,
        total - memory.get("MemAvailable", total),
        tuple(_rank_status(node, number) for number in range(len(node.started.plans))) if works else (),
        None if store_seconds is None else round(store_seconds, 6),
    )


def _rank_status(node: NodeWatch, number: int) -> RankStatus:
    worker, evidence = node.started.plans[number].worker, node.evidence
    pid, exited = evidence.pids.get(number, 0), evidence.exits.get(number)
    beat = node.channel.read(number) if node.in_round else None
    cpu, memory = (0.0, 0) if exited or not pid else _usage(pid)
    return RankStatus(
        worker.rank,
        worker.name,
        worker.local_rank,
        worker.devices,
        pid,
        _rank_state(node, number),
        exited.code if exited else None,
        evidence.began_at[number] + evidence.epoch if number in evidence.began_at else 0.0,
        beat.step if beat else exited.step if exited else NO_STEP,
        beat.total if beat else 0,
        round(beat.seconds, 6) if beat else 0.0,
        round(time.monotonic() - beat.at, 3) if beat and beat.at else None,
        {name[:NUMBER_NAME]: value for name, value in beat.numbers.items()} if beat else {},
        cpu,
        memory,
        logs_of(node, number),
        node.control.use_of(worker.devices) if worker.devices and pid and not exited else None,
    )


def logs_of(node: NodeWatch, number: int) -> tuple[str, ...]:
    return () if node.spec.interactive else node.started.plans[number].worker.logs


def node_logs(node: NodeWatch) -> NodeLogs:
    """Without what the workers use: this is asked several times per second."""
    plans = node.started.plans if node.evidence.rounds else ()
    logs = tuple(
        LogStatus(
            plan.worker.rank,
            plan.worker.name,
            file,
            path,
            tuple((part.inode, part.size) for part in parts_of(path)),
            node.log_times.starts.get(path, (0, 0)),
        )
        for number, plan in enumerate(plans)
        for file, path in enumerate(logs_of(node, number))
    )
    seat, number = (node.started.seat, node.started.roster.round) if plans else (0, 0)
    return NodeLogs(os.uname().nodename, seat, node_state(node), number, time.time(), logs)


def _rank_state(node: NodeWatch, number: int) -> str:
    exited = node.evidence.exits.get(number)
    if exited is None:
        return status.RUNNING if number in node.evidence.pids else status.STARTING
    if exited.asked_to_stop:
        return status.STOPPED
    return status.FAILED if exited.code else status.DONE


def _usage(pid: int) -> tuple[float, int]:
    """CPU seconds and resident bytes of a worker and of its children, such as data loaders."""
    own = [pid, *_children(pid)]
    cpu = memory = 0.0
    for one in own:
        fields = stat_fields(one)
        if len(fields) > RESIDENT:
            cpu += (int(fields[USER]) + int(fields[SYSTEM])) / TICKS
            memory += int(fields[RESIDENT]) * PAGE
    return round(cpu, 2), int(memory)


def _children(pid: int) -> list[int]:
    """Those that its main thread has started: with hundreds of threads, asking each would take long."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as listed:
            return [int(child) for child in listed.read().split()[:MOST_CHILDREN]]
    except OSError:
        return []
