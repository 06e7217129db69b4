"""Which CPUs each worker is bound to, from the machine's topology and the NUMA nodes of the workers' devices. Pure."""

from __future__ import annotations

from flota.errors.binding import NoCpus, TooFewCores
from flota.humanize import numbers_in_words
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flota.binding.topology import Topology

    Cpus = frozenset[int]

NONE, AUTO, NUMA, SOCKET, CACHE, CORE = "none", "auto", "numa", "socket", "cache", "core"
NO_NODE = -1


class Binding(NamedTuple):
    """The CPUs of one worker, and where its memory should come from."""

    cpus: tuple[int, ...]
    memory_node: int = NO_NODE  # a NUMA node, if all CPUs are in it
    threads: int = 0  # its share of these CPUs; 0: decided without regard to the binding

    @property
    def cpu_list(self) -> str:
        """As the kernel writes it: `0-3,8`."""
        return list_cpus(self.cpus)


def list_cpus(cpus: Iterable[int]) -> str:
    return numbers_in_words(cpus).replace(", ", ",")


def shares_cpus(topology: Topology, processes: int, assigned: int = 0) -> bool:
    """Whether the processes that a platform has started on this machine all have these CPUs. Otherwise the platform has
    divided the machine's CPUs among them. `assigned`: the CPUs of each by the platform's own account; 0: not known."""
    each = assigned or topology.online // processes
    # With fewer cores than processes they are a part: platforms may assign one thread of a core, but allow both.
    return len(topology.cpus) > each and len(topology.cores) >= processes


def bind_workers(topology: Topology, mode: str, near: Sequence[Cpus]) -> tuple[Binding, ...]:
    """Return a binding per worker, or none at all. `near`: for each worker the NUMA nodes of its devices; empty if that
    is not known. Such workers are spread evenly over all cores."""
    if mode == AUTO:
        return _bind_automatically(topology, near)
    bound = _choose_cpus(topology, mode, near)
    for worker, cpus in enumerate(bound):
        if not cpus:
            raise NoCpus(mode, worker, numbers_in_words(near[worker]), list_cpus(topology.cpus))
    return _with_memory(topology, bound)


def _bind_automatically(topology: Topology, near: Sequence[Cpus]) -> tuple[Binding, ...]:
    """Bind to NUMA nodes, or else to sockets, if each worker is near its devices or no CPU is left over. Otherwise do
    not bind: without a device, a CPU that no worker may use costs more than distant memory."""
    for mode in (NUMA, SOCKET):
        bound = _choose_cpus(topology, mode, near)
        uses_all = frozenset().union(*bound) == topology.cpus
        if all(bound) and (all(near) or uses_all) and any(cpus != topology.cpus for cpus in bound):
            return _with_memory(topology, bound)
    return ()


def _choose_cpus(topology: Topology, mode: str, near: Sequence[Cpus]) -> list[Cpus]:
    places = _places(topology, near)
    if mode == SOCKET:
        return [_touched(topology.sockets, place) for place in places]
    if mode == NUMA:
        return [_touched(topology.nodes.values(), place) for place in places]
    bound: list[Cpus] = [frozenset()] * len(places)
    for number, node in topology.nodes.items():
        workers = [worker for worker, place in enumerate(places) if place & node]
        if mode == CORE:
            shares = _divide_cores(_parts(topology.cores, node), len(workers), number)
        else:
            # The caches with the most CPUs first; workers share them if there are more workers.
            caches = sorted(_parts(topology.caches, node), key=lambda cache: (-len(cache), min(cache)))
            shares = [caches[position % len(caches)] for position in range(len(workers))]
        for worker, share in zip(workers, shares, strict=True):
            bound[worker] |= share
    return bound


def _places(topology: Topology, near: Sequence[Cpus]) -> list[Cpus]:
    """Where each worker belongs: the CPUs of its devices' NUMA nodes, or one core. Workers are spread over cores, not
    over NUMA nodes: flota may be allowed more CPUs of one than of another."""
    cores = [core for node in topology.nodes.values() for core in topology.cores if core & node]
    return [
        frozenset().union(*(topology.nodes.get(number, ()) for number in numbers))
        if numbers
        else cores[worker * len(cores) // len(near)]
        for worker, numbers in enumerate(near)
    ]


def _touched(groups: Iterable[Cpus], place: Cpus) -> Cpus:
    return frozenset().union(*(group for group in groups if group & place))


def _parts(groups: Iterable[Cpus], node: Cpus) -> list[Cpus]:
    return [group & node for group in groups if group & node]


def _divide_cores(cores: list[Cpus], workers: int, node: int) -> list[Cpus]:
    """Give each worker the same number of whole cores; the first ones get what is left over."""
    if len(cores) < workers:
        raise TooFewCores(len(cores), node, workers)
    shares, left = [], cores
    for worker in range(workers):
        count = len(cores) // workers + (worker < len(cores) % workers)
        shares.append(frozenset[int]().union(*left[:count]))
        left = left[count:]
    return shares


def _with_memory(topology: Topology, bound: list[Cpus]) -> tuple[Binding, ...]:
    bindings = []
    for cpus in bound:
        nodes = [number for number, node in topology.nodes.items() if node & cpus]
        is_local = len(nodes) == 1 and nodes[0] in topology.memory_nodes
        users = max(sum(cpu in other for other in bound) for cpu in cpus)
        threads = max(1, len(cpus) // users)
        bindings.append(Binding(tuple(sorted(cpus)), nodes[0] if is_local else NO_NODE, threads))
    return tuple(bindings)
