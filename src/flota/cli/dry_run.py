"""--dry-run: the whole plan, and nothing started."""

from __future__ import annotations

from flota.frameworks import equip
from flota.job.plan import WorkerPlan, plan_workers
from flota.job.roster import Ports
from flota.job.spec import JobSpec
from flota.run.start import one_node_roster

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FREE = "<free>"


def print_plan(spec: JobSpec, environ: Mapping[str, str], *, as_json: bool) -> int:
    first = spec.start_port
    own = [str(first + i) if first else FREE for i in range(spec.workers)]
    roster = one_node_roster(spec, Ports(tuple(own), FREE, FREE, FREE), 0, 0)
    plans = [equip(spec, roster, worker, environ) for worker in plan_workers(spec, roster, 0)]
    if as_json:
        import json

        print(json.dumps({"job_id": spec.job_id, "workers": [_as_dict(plan) for plan in plans]}, indent=1))
    else:
        for plan in plans:
            print(_as_text(plan))
    return 0


def _as_dict(plan: WorkerPlan) -> dict[str, object]:
    worker = plan.worker
    return {
        "rank": worker.rank,
        "local_rank": worker.local_rank,
        "command": list(worker.argv),
        "devices": list(worker.devices),
        "logs": list(worker.logs),
        "env": plan.env,
        "removed": list(plan.dropped),
    }


def _as_text(plan: WorkerPlan) -> str:
    from shlex import join

    worker = plan.worker
    head = [
        f"rank {worker.rank}",
        f"  command  {join(worker.argv)}",
        f"  devices  {','.join(worker.devices) or 'cpu'}",
        f"  log      {' '.join(worker.logs)}",
        "  variables",
    ]
    return "\n".join([*head, *(f"    {name}={value}" for name, value in plan.env.items()), ""])
