"""--bind: binds this node's workers to CPUs near their devices."""

from __future__ import annotations

from flota.binding.device_nodes import nodes_of
from flota.binding.modes import AUTO, CACHE, CORE, NO_NODE, NUMA, bind_workers, shares_cpus
from flota.binding.topology import read_topology
from flota.errors.binding import NoTopology
from flota.host.affinity import can_prefer_memory
from flota.job.plan import plan_workers
from flota.job.roster import Ports
from flota.job.spec import JobSpec
from flota.run.start import one_node_roster
from flota.run.worker_ports import MASTER_PORTS

OF_TORCHRUN = {"node": NUMA, "exclusive": CORE, "core-complex": CACHE}


def bind_to_cpus(spec: JobSpec, mode: str, cpus: int = 0, root: str = "/") -> JobSpec:
    """`cpus`: those that the platform has assigned to this node, if it says so."""
    mode = OF_TORCHRUN.get(mode, mode)
    try:
        topology = read_topology(root)
    except OSError:
        if mode == AUTO:
            return spec
        raise NoTopology(mode) from None
    share = spec.share
    if share and shares_cpus(topology, share.local_size, cpus):
        # Each node of this machine computes the bindings of all of them, and uses its own.
        shares = [share._replace(local_rank=number) for number in range(share.local_size)]
        near = [nodes for one in shares for nodes in _nodes_near(spec._replace(share=one), root)]
        first = share.local_rank * spec.workers
        bindings = bind_workers(topology, mode, near)[first : first + spec.workers]
    else:
        bindings = bind_workers(topology, mode, _nodes_near(spec, root))
    if not can_prefer_memory():
        bindings = tuple(bound._replace(memory_node=NO_NODE) for bound in bindings)
    if spec.threads_given or spec.workers == 1 or spec.devices.chosen:
        bindings = tuple(bound._replace(threads=0) for bound in bindings)
    return spec._replace(bindings=bindings)


def _nodes_near(spec: JobSpec, root: str) -> list[frozenset[int]]:
    """Of each worker of this node, the NUMA nodes of its devices. They do not depend on ranks and ports."""
    roster = one_node_roster(spec, Ports(("",) * spec.workers, *[""] * MASTER_PORTS), 0, 0)
    return [
        nodes_of(spec.devices_for(spec.all_roles[worker.role]).variable, worker.devices, root)
        for worker in plan_workers(spec, roster, 0)
    ]


def memory_notes() -> list[str]:
    """For the log of level DEBUG."""
    return [] if can_prefer_memory() else ["--bind sets no memory policy: the system does not permit it"]
