"""flota.snapshot: a training state that outlives the worker.

With flota, a state is copied into memory that the node owns; after a restart, it is copied back. Without, it is a file.
"""

from __future__ import annotations

import os
import sys
from operator import index
from typing import Any

from flota.errors.snapshots import (
    BadSnapshotName,
    BadStep,
    DamagedSnapshot,
    PartMissing,
    SecondSnapshot,
    WorldChanged,
)
from flota.worker import snapshot_arrays
from flota.worker.environment import Env, env
from flota.worker.snapshot_files import SavedFile, list_files, remove_old, remove_unfinished, set_aside, write_state
from flota.worker.snapshot_layout import LARGEST_STEP, NO_STEP
from flota.worker.snapshot_memory import RankMemory, TooLarge, open_state
from flota.worker.snapshot_tree import MISSING, Flattened, SavedTree, Shards

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Reshard = Callable[[list[dict[str, Any]], Env], dict[str, Any]]

_current: StateSnapshot | None = None


def snapshot(
    name: str = "train",
    *,
    every: int = 1,
    sharded: bool = False,
    directory: str = "snapshots",
    keep: int = 2,
    reshard: Reshard | None = None,
) -> StateSnapshot:
    """Return this worker's snapshot. `every`: save at steps that this divides. `sharded`: each rank has its own part of
    the state, and not a copy of the same state; DTensors are known to be sharded.

    `directory` and `keep`: where files are written without flota, and how many per rank. `reshard`: called with the
    parts of all ranks, as dicts, and this worker's `Env`, if a sharded state is loaded by another number of ranks;
    returns the parts of this rank.
    """
    global _current  # noqa: PLW0603
    if not isinstance(name, str) or not name.replace("-", "a").replace("_", "a").isalnum() or not name.isascii():
        raise BadSnapshotName(name)
    if _current is None:
        _current = StateSnapshot(name, every, directory, keep, reshard, sharded=sharded)
    if _current.name != name:
        raise SecondSnapshot(_current.name, name)
    return _current


class StateSnapshot:
    """Use `flota.snapshot` to get one."""

    def __init__(
        self, name: str, every: int, directory: str, keep: int, reshard: Reshard | None, *, sharded: bool
    ) -> None:
        self.name, self.every = name, max(1, int(every))
        self._sharded, self._keep, self._reshard = sharded, max(1, keep), reshard
        self._env = env()
        self._values: dict[str, Any] = {}
        # Removed, because a program that this worker starts must not use its memory.
        path, _, limit = os.environ.pop("FLOTA_SNAPSHOT", "").rpartition(":")
        self._source = os.environ.pop("FLOTA_SNAPSHOT_FROM", "")
        self._memory = self._open_memory(path, int(limit) if limit else None) if path else None
        self._directory = directory if not path else ""  # empty: the node writes files, if any
        self._writes = self._memory is not None or bool(self._directory)
        self._is_first = True  # whether the next file is the first
        self._has_loaded = False  # or has said why not
        os.register_at_fork(after_in_child=self._stop_writing)

    def _stop_writing(self) -> None:
        """A process that this worker forks must not write to its memory."""
        self._writes = False

    def _open_memory(self, path: str, limit: int | None) -> RankMemory | None:
        try:
            return RankMemory(path, limit, self._env.local_world_size)
        except OSError as error:  # the node's /proc is not visible, as in a separate container
            self._warn(f"snapshots are off: cannot open {path}: {error.strerror}")
            return None

    def save(self, step: int, **parts: Any) -> None:
        """Save a state. `step`: the number of steps that it has done. Returns when all has been copied.

        All ranks must save at the same steps, each before the next step in which ranks wait for each other.
        """
        if type(step) is not int:
            step = to_step(step)
        if not 0 <= step <= LARGEST_STEP:
            raise BadStep(step)
        if not self._writes or step % self.every:
            return
        state = Flattened()
        for name, value in parts.items():
            state.add_part(name, value.state_dict() if has_state(value) else value)
        tree = state.to_json(self.name)
        sharded = self._sharded or state.sharded
        rank, world = self._env.rank, self._env.world_size
        if self._memory is None:
            self._write_file(step, state, tree, sharded=sharded)
            return
        try:
            self._memory.write(step, state, tree, rank=rank, world=world, sharded=sharded)
        except TooLarge as error:
            needed, limit = error.args
            self._writes = False
            self._warn(
                f"snapshots are off: rank {rank} needs {needed / 1e6:.0f} MB for three states, and may take"
                f" {limit / 1e6:.0f} MB; see --snapshot_memory"
            )

    def _write_file(self, step: int, state: Flattened, tree: bytes, *, sharded: bool) -> None:
        """Of a state that all ranks have, rank 0 writes the only file."""
        if sharded or self._env.rank == 0:
            if self._is_first:
                self._is_first = False
                remove_unfinished(self._directory, self.name)
                if self._env.rank == 0:
                    self._print(
                        f"writing snapshots to {os.path.abspath(self._directory)}; the next run continues from them"
                    )
            file = SavedFile(self.name, self._env.role, step, self._env.rank, self._env.world_size)
            write_state(self._directory, file, state, tree, sharded=sharded)
            remove_old(self._directory, file, self._keep, sharded=sharded)

    def load(self, **parts: Any) -> int:
        """Restore the newest state that all ranks have. Returns its step, or 0 if there is none.

        Objects with state_dict(), dicts, lists, tensors and arrays are changed in place; `value` returns the others.
        """
        path, step, world = self._newest_file() if self._directory else parse_source(self._source)
        if step == NO_STEP:
            return 0
        if world and world != self._env.world_size:
            self._load_resharded(path, step, world, parts)
            self._say_source(path, step)
            return step
        tree = _open_or_set_aside(path, step, verified=bool(self._directory))
        if tree.name != self.name:
            return 0
        self._say_source(path, step)
        missing = [name for name in parts if name not in tree.names]
        if missing:
            raise PartMissing(path, missing[0], ", ".join(tree.names))
        for name in tree.names:
            if name in parts and has_state(parts[name]):
                restore(parts[name], tree, name)
            else:
                self._values[name] = put(parts.get(name, MISSING), tree.part(name, parts.get(name, MISSING)))
        return step

    def value(self, name: str, default: Any = None) -> Any:
        """The saved value of a part that `load` could not change in place, such as a number."""
        return self._values.get(name, default)

    def _newest_file(self) -> tuple[str, int, int]:
        """The newest step of which there is a file for all ranks, or of rank 0 if all have the same state. Returns its
        path, the step, and the number of ranks if the state is sharded."""
        found: dict[int, list[SavedFile]] = {}
        newest = ""  # step of which parts are missing
        for file in list_files(self._directory, self.name):
            if file.role == self._env.role:
                found.setdefault(file.step, []).append(file)
        for step, files in sorted(found.items(), reverse=True):
            mine = [file for file in files if file.rank == self._env.rank] or files
            path = f"{self._directory}/{mine[0].filename}"
            try:
                entry, _ = open_state(path, step)
            except DamagedSnapshot as error:
                self._skip_damaged(path, error, alone=len(files) == 1)
                continue
            if not entry.sharded or len(files) == entry.world:
                return path, step, entry.world if entry.sharded else 0
            newest = newest or f"step {step}: {len(files)} of {entry.world}"
        if newest and self._env.rank == 0 and not self._has_loaded:
            self._has_loaded = True
            self._warn(f"starting from step 0: {self._directory} has no step with the parts of all ranks ({newest})")
        return "", NO_STEP, 0

    def _skip_damaged(self, path: str, error: DamagedSnapshot, *, alone: bool) -> None:
        """Use an older state, if all ranks do: they all read the only file of a step. `alone`: this is such a file."""
        if not alone:
            set_aside(path)
            raise error
        if self._env.rank == 0 and set_aside(path):
            self._warn(f"{error.message}; it is now {path}.damaged, and an older state is used, if there is one")

    def _load_resharded(self, path: str, step: int, world: int, parts: dict[str, Any]) -> None:
        """Load a sharded state of another number of ranks, with the user's function."""
        directory = os.path.dirname(path)
        files = [one for one in list_files(directory, self.name) if (one.step, one.world) == (step, world)]
        if self._reshard is None or len(files) != world:
            raise WorldChanged(path, world, self._env.world_size)
        trees = [_open_or_set_aside(f"{directory}/{one.filename}", step) for one in files]
        mine = self._reshard([{name: tree.part(name) for name in tree.names} for tree in trees], self._env)
        for name, value in mine.items():
            target = parts.get(name, MISSING)
            if target is not MISSING and has_state(target):
                set_state(target, value)
            else:
                self._values[name] = put(target, value)

    def _say_source(self, path: str, step: int) -> None:
        """A node says what its ranks load. Without one, a file of another run must not go unnoticed."""
        if self._directory and self._env.rank == 0 and not self._has_loaded:
            files = f"{os.path.dirname(path)}/{self.name}.{self._env.role}.*.snapshot"
            self._print(f"continuing from step {step} of {path} (to start from step 0, remove {files})")
        self._has_loaded = True

    def _warn(self, words: str) -> None:
        self._print(f"warning: {words}")

    def _print(self, words: str) -> None:
        print(f"flota: {words}", file=sys.stderr, flush=True)  # noqa: T201  in the worker's log


def _open_or_set_aside(path: str, step: int, *, verified: bool = False) -> SavedTree:
    """The next attempt loads an older state than one that is damaged."""
    try:
        return open_state(path, step, verified=verified)[1]
    except DamagedSnapshot:
        set_aside(path)
        raise


def to_step(value: Any) -> int:
    """A whole number of a framework, such as numpy.int64, is a step as well."""
    try:
        if not isinstance(value, bool):
            return index(value)
    except (TypeError, RuntimeError):  # RuntimeError: a tensor of torch without data
        pass
    raise BadStep(value)


def parse_source(text: str) -> tuple[str, int, int]:
    """Path, step, and number of ranks, as in FLOTA_SNAPSHOT_FROM."""
    if not text:
        return "", NO_STEP, 0
    path, step, world = text.rsplit(":", 2)
    return path, int(step), int(world)


def has_state(value: Any) -> bool:
    return hasattr(value, "state_dict") and not isinstance(value, (dict, type))


def restore(target: Any, tree: SavedTree, name: str) -> None:
    """Load a saved state into an object with state_dict()."""
    state = tree.part(name, target.state_dict())
    if hasattr(target, "param_groups") and isinstance(state, dict):  # an optimizer of torch, whose state is still empty
        parameters = [one for group in target.param_groups for one in group["params"]]
        for number, values in state.get("state", {}).items():
            for key, value in values.items():
                if isinstance(value, Shards):
                    join = snapshot_arrays.load_kind("torch").join
                    values[key] = join(parameters[number], value.shape, value.arrays) if join else value
    set_state(target, state)


def set_state(target: Any, state: Any) -> None:
    """Paddle's name comes first: its DataParallel also has torch's name, and fails by it."""
    (target.set_state_dict if hasattr(target, "set_state_dict") else target.load_state_dict)(state)


def put(target: Any, value: Any) -> Any:
    """Change the script's value to the saved one, if it can be changed."""
    if isinstance(target, dict):
        target.clear()
        target.update(value)
        return target
    if isinstance(target, list):
        target[:] = value
        return target
    kind = None if target is MISSING else snapshot_arrays.find_kind(target)
    if kind and hasattr(target, "__setitem__") and kind.name in ("numpy", "torch") and target.shape == value.shape:
        kind.copy_all([value], [target])
        return target
    return value
