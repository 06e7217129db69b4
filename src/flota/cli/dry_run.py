"""--dry-run: print what would be started, and start nothing."""

import re
from collections.abc import Iterator, Mapping
from itertools import count

from flota.frameworks import add_variables
from flota.job.nodes import NodesSpec
from flota.job.plan import Worker, WorkerPlan, plan_workers
from flota.job.roles import TRAINER, label
from flota.job.roster import Ports, Roster, Seat, endpoint, with_endpoints
from flota.job.spec import JobSpec
from flota.logs.run_directory import resolve, times
from flota.run.start import one_node_roster
from flota.run.worker_ports import chosen_ports


def print_plan(spec: JobSpec, environ: Mapping[str, str], *, as_json: bool) -> int:
    if spec.log.per_run:
        spec = resolve(spec, "" if spec.nodes else next(times()))
    if spec.run_id:
        spec = spec._replace(run_id="<unique>")
    # Free ports are numbered until printed, so that variables with different ports count as different.
    free = (f"<free{number}>" for number in count())
    roster = multi_node_roster(spec, free) if spec.nodes else one_node_roster(spec, ports_of(spec, free), 0, 0)
    seat = max(spec.nodes.rank, 0) if spec.nodes else 0
    plans = [add_variables(spec, roster, worker, environ, "<channel>") for worker in plan_workers(spec, roster, seat)]
    if as_json:
        import json

        text = json.dumps({"job_id": spec.job_id, "workers": [_as_dict(plan) for plan in plans]}, indent=1)
    else:
        head = [f"job {spec.job_id}", *([_nodes_in_words(spec, spec.nodes)] if spec.nodes else [])]
        text = "\n".join([*head, "", *_table(plans), "", *_variables(plans)])
    print(re.sub(r"<free\d+>", "<free>", text))
    return 0


def ports_of(spec: JobSpec, free: Iterator[str]) -> Ports:
    own = [str(port) for port in chosen_ports(spec)] or [next(free) for _ in range(spec.workers)]
    return Ports(tuple(own), next(free), next(free), next(free))


def multi_node_roster(spec: JobSpec, free: Iterator[str]) -> Roster:
    """Assumes that all nodes are like this one. A real job agrees on its nodes, and without --rank on their order, when
    they join."""
    nodes = spec.nodes
    assert nodes
    addresses = nodes.hosts or [f"<node {number}>" for number in range(nodes.most)]
    seats = [Seat("", address, address, ports_of(spec, free), spec.workers_by_role) for address in addresses]
    own = max(nodes.rank, 0)
    seats[own] = one_node_roster(spec, seats[own].ports, 0, 0).seats[0]
    return with_endpoints(Roster(0, 0, tuple(seats)), spec.all_roles)


def _nodes_in_words(spec: JobSpec, nodes: NodesSpec) -> str:
    """Where the nodes would join."""
    count = str(nodes.most) if not nodes.elastic else f"{nodes.least} to {nodes.most}"
    places = ",".join(endpoint(place.host, str(place.port)) for place in nodes.places)
    etcd = "the etcd that these hosts run: " if nodes.members else "etcd at "
    where = f"{etcd}{places}" if nodes.etcd else places or f"a free port on {spec.address}"
    return f"{count} nodes join at {where}; this node's address is {spec.address}"


def _as_dict(plan: WorkerPlan) -> dict[str, object]:
    worker = plan.worker
    numbers = {"role": worker.name, "rank": worker.rank, "local_rank": worker.local_rank}
    process: dict[str, object] = {"command": worker.argv, "devices": worker.devices, "logs": worker.logs}
    if bound := worker.binding:
        process |= {"cpus": bound.cpu_list, "memory_node": bound.memory_node if bound.memory_node >= 0 else None}
    return {**numbers, **process, "env": plan.env, "removed": plan.dropped}


def _table(plans: list[WorkerPlan]) -> list[str]:
    """One row per worker."""
    from shlex import join

    workers = [plan.worker for plan in plans]
    mixed = any(worker.name != TRAINER for worker in workers)
    bound = ("cpus", "memory") if any(worker.binding for worker in workers) else ()
    rows = [("worker" if mixed else "rank", "devices", *bound, "log", "command")]
    for worker in workers:
        name = label(worker.name, worker.rank) if mixed else str(worker.rank)
        logs, command = " ".join(worker.logs), join(worker.argv)
        rows.append((name, ",".join(worker.devices) or "cpu", *_binding_cells(worker), logs, command))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, (*widths[:-1], 0), strict=True)) for row in rows]


def _binding_cells(worker: Worker) -> tuple[str, ...]:
    bound = worker.binding
    return (bound.cpu_list, f"node {bound.memory_node}" if bound.memory_node >= 0 else "-") if bound else ()


def _variables(plans: list[WorkerPlan]) -> list[str]:
    """Variables that all workers share, then those that differ."""
    common = [name for name in plans[0].env if all(plan.env.get(name) == plans[0].env[name] for plan in plans)]
    lines = ["variables of all workers", *(f"  {name}={plans[0].env[name]}" for name in common)]
    for plan in plans:
        own = [f"  {name}={value}" for name, value in plan.env.items() if name not in common]
        if own:
            lines += ["", f"variables of {label(plan.worker.name, plan.worker.rank)}", *own]
    return lines
