"""A node's memory for snapshots: one file without a name per rank, which outlives the workers.

It is created empty, so a job that saves nothing pays only for a descriptor. It is sealed: it can grow, but not shrink,
so no process that has mapped it can be ended by another. The node reads it with system calls only. Most starts have
nothing to load, and do not import the modules that read it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.job.plan import Worker, WorkerPlan
    from flota.snapshots.agreement import AgreedStep, HeldSnapshot
    from flota.snapshots.state_file import StateFile

    RankKey = tuple[str, int]  # role and rank

OWN = ""  # this node, in an agreement that needs no other


class SnapshotMemory:
    """`limit`: bytes for all ranks of this node; None: a share of what is available. `directory`: with states that were
    written to a disk; empty: none."""

    def __init__(self, limit: int | None, directory: str = "") -> None:
        self._limit, self._directory = limit, directory
        self._fds: dict[RankKey, int] = {}  # of this node's ranks, and copies of the states of others
        self.loaded: tuple[AgreedStep, ...] = ()  # what the ranks of the round load
        self.news: list[str] = []  # about what they load, for people
        self.warnings: list[str] = []  # the one who prints them clears them
        self._on_disk: tuple[HeldSnapshot, ...] = ()  # before the round: other nodes may already write states of it
        self._has_warned = False  # of states that are not loaded
        self.fetches: list[tuple[str, int, int, str]] = []  # role, rank, step, node: states that other nodes have

    @property
    def files(self) -> list[StateFile]:
        from flota.snapshots.state_file import StateFile

        return [StateFile(*key, fd) for key, fd in self._fds.items()]

    def held(self) -> tuple[HeldSnapshot, ...]:
        """What ranks of the next round can load from this node. None of its workers may be running."""
        in_memory = tuple(held for file in self.files if (held := file.held()))
        if not self._directory:
            return in_memory
        from flota.snapshots.disk import find_states, set_broken_aside

        self.warnings += map(_damage_in_words, set_broken_aside(self._directory))
        self._on_disk = find_states(self._directory)
        return (*in_memory, *self._on_disk)

    def begin_round(self, plans: tuple[WorkerPlan, ...], agreed: tuple[AgreedStep, ...] | None = None) -> None:
        """Give each worker its rank's memory, and the state to load. `agreed`: by all nodes; None if this is the only
        one."""
        if not hasattr(os, "memfd_create"):
            return
        workers = [plan.worker for plan in plans]
        if self._fds or agreed or self._on_disk or (agreed is None and self._directory):
            self._prepare_to_load(workers, agreed)
        for role, rank in [(worker.name, worker.rank) for worker in workers]:
            self._ensure(role, rank)
        for plan in plans:
            self._add_variables(plan, len(plans))

    def _prepare_to_load(self, workers: list[Worker], agreed: tuple[AgreedStep, ...] | None) -> None:
        """Forget what no rank of the round can load, and no later round should."""
        agreed = self._agree_alone(workers) if agreed is None else agreed
        self.loaded = agreed
        self.news = [_in_words(one, [file.held() for file in self.files]) for one in agreed]
        steps = {one.role: one.step for one in agreed}
        for file in self.files:
            file.forget_after(steps.get(file.role, -1))
            file.keep(0)
        if self._directory:
            from flota.snapshots.disk import forget_after

            for role, step in steps.items():
                forget_after(self._directory, role, step)
            self._warn_of_parts({worker.name for worker in workers} - steps.keys())
        wanted = {(one.role, worker.rank): one for one in agreed for worker in workers if worker.name == one.role}
        sources = {(one, one.source_of(rank)) for (_, rank), one in wanted.items()}
        self.fetches = sorted({(one.role, from_.source, one.step, from_.node) for one, from_ in sources if from_.node})
        for role, rank, _, _ in self.fetches:
            self._ensure(role, rank)

    def _warn_of_parts(self, roles: set[str]) -> None:
        """Say once per job that states were saved, and these roles load none."""
        steps = [step for one in self._on_disk if one.role in roles for step in one.steps]
        if steps and not self._has_warned:
            self._has_warned = True
            why = f"{self._directory} has no step with the parts of all ranks (the newest part is of step {max(steps)})"
            self.warnings.append(f"snapshots: starting from step 0: {why}")

    def _agree_alone(self, workers: list[Worker]) -> tuple[AgreedStep, ...]:
        """Without a file that is damaged. On several nodes the workers find that: a node must not wait for a disk while
        others wait for it."""
        from flota.snapshots.agreement import agree

        places: dict[str, list[str]] = {}
        for worker in workers:
            places.setdefault(worker.name, []).append(OWN)
        while True:
            agreed = agree({OWN: self.held()}, places)
            damaged = self._set_damaged_aside(agreed, places)
            if not damaged:
                return agreed
            self.warnings.append(_damage_in_words(damaged))

    def _set_damaged_aside(self, agreed: tuple[AgreedStep, ...], places: dict[str, list[str]]) -> str:
        """The path of a file that would be loaded; empty if all are as they were written."""
        if not self._directory:
            return ""
        from flota.snapshots.disk import set_damaged_aside

        for one in agreed:
            ranks = {one.source_of(rank).source for rank in range(len(places[one.role]))}
            ranks = set(range(one.world)) if one.sharded else ranks
            paths = (self._source(one.role, rank, one.step) for rank in sorted(ranks))
            for path in dict.fromkeys(path for path in paths if path.startswith(self._directory)):
                if set_damaged_aside(path):
                    return path
        return ""

    def _ensure(self, role: str, rank: int) -> None:
        if (role, rank) not in self._fds:
            self._fds[role, rank] = create_memory()

    def take(self, role: str, rank: int, fd: int) -> None:
        """Take over the memory with a rank's state, which another node has sent."""
        former = self._fds.pop((role, rank), -1)
        if former >= 0:
            os.close(former)
        self._fds[role, rank] = fd

    def _add_variables(self, plan: WorkerPlan, workers: int) -> None:
        worker = plan.worker
        limit = "" if self._limit is None else str(self._limit // workers)
        # FLOTA_SNAPSHOT: the memory for `flota.snapshot`, and how many bytes of it may be used
        given = {"FLOTA_SNAPSHOT": f"{self._path(worker.name, worker.rank)}:{limit}"}
        for agreed in self.loaded:
            if agreed.role == worker.name:
                world = agreed.world if agreed.sharded else 0
                source = agreed.source_of(worker.rank).source if world in (0, worker.size) else 0  # any: to be refused
                path = self._source(worker.name, source, agreed.step)
                # FLOTA_SNAPSHOT_FROM: the state that `flota.snapshot` loads: where it is, its step, of how many ranks
                given["FLOTA_SNAPSHOT_FROM"] = f"{path}:{agreed.step}:{world}"
        plan.env.update(given)
        plan.env["FLOTA_GIVEN"] = ",".join([plan.env["FLOTA_GIVEN"], *given])

    def _source(self, role: str, rank: int, step: int) -> str:
        """Where the state of a step is: in memory, on the disk, or in memory later, when it has been fetched."""
        has = any((file.role, file.rank) == (role, rank) and file.has(step) for file in self.files)
        if not has and self._directory:
            from flota.snapshots.disk import find_file

            if found := find_file(self._directory, role, rank, step):
                return found
        return self._path(role, rank)

    def _path(self, role: str, rank: int) -> str:
        fd = self._fds.get((role, rank), -1)
        return f"/proc/{os.getpid()}/fd/{fd}" if fd >= 0 else ""

    def close(self) -> None:
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()


def _in_words(agreed: AgreedStep, held: list[HeldSnapshot | None]) -> str:
    newest = max((max(one.steps) for one in held if one and one.role == agreed.role), default=agreed.step)
    lost = max(0, newest - agreed.step)
    behind = f", {lost} step{'s' * (lost > 1)} before the newest one here" if lost else ""
    return f"snapshots: ranks continue from the state of step {agreed.step}{behind}"


def _damage_in_words(path: str) -> str:
    return f"snapshots: {path} is damaged: it is {path}.damaged now, and is not loaded"


def create_memory() -> int:
    from fcntl import F_ADD_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK, fcntl

    fd = os.memfd_create("flota-snapshot", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL)
    return fd
