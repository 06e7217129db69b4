"""Side effects of imports: variables, open files, random states. Some must be repeated in each worker, some must not be
shared by forks. Runs in workers' interpreters: Python 3.8."""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

# OpenBLAS can be forked if it has one thread. The worker sets its own number of threads afterwards.
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS")
# Variables that C libraries read when they are loaded, which is not visible from Python.
READ_BY_LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
READ_BY_PADDLE = ("FLAGS_selected_gpus", "FLAGS_selected_xpus", "FLAGS_selected_npus", "FLAGS_selected_mlus")


class ImportEffects:
    def __init__(self) -> None:
        self.random = RandomStates()
        self.opened: list[str] = []  # files, devices and shared memory that imports opened
        self._read: dict[str, str | None] = {}  # variables that imports read, with their values before the imports
        self._set: dict[str, str | None] = {}  # variables that imports set; None if they removed one
        self._files: dict[str, tuple[int, int]] = {}  # mtime and size of each module's file

    @contextmanager
    def watch(self, *, forks: bool) -> Iterator[None]:
        before, opened = dict(os.environ), _opened()
        if forks:
            os.environ.update(dict.fromkeys(BLAS_THREADS, "1"))
        self._began = time.time_ns()
        with self.random.watch(), self._watch_reads(before):
            yield
        unseen = READ_BY_LIBRARIES + (READ_BY_PADDLE if "paddle" in sys.modules else ())
        self._read.update({name: before.get(name) for name in unseen})
        for name in {*os.environ, *before}.difference(BLAS_THREADS):
            if os.environ.get(name) != before.get(name):
                self._set[name] = os.environ.get(name)
        self.opened = sorted(_opened() - opened)
        paths = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        self._files = {path: found for path in paths if path and (found := _time_and_size(path))}

    @contextmanager
    def _watch_reads(self, before: dict[str, str]) -> Iterator[None]:
        encode: Callable[[str], Any] = os.environ.encodekey
        decode: Callable[[Any], str] = os.environ.decodekey
        listed: set[str] = set()

        def note_read(name: str) -> Any:
            if name in listed:
                listed.remove(name)  # iteration over all variables decodes a name before its value is read
            else:
                self._read.setdefault(name, before.get(name))
            return encode(name)

        def note_listed(key: Any) -> str:
            listed.add(decode(key))
            return decode(key)

        os.environ.encodekey, os.environ.decodekey = note_read, note_listed
        try:
            yield
        finally:
            os.environ.encodekey, os.environ.decodekey = encode, decode

    def changed_variable(self, env: Mapping[str, str]) -> str:
        """Return a variable that an import read and that has another value in this environment; empty if none."""
        return next((name for name, value in self._read.items() if env.get(name) != value), "")

    def first_read(self, names: Sequence[str]) -> str:
        """Return one of these variables that an import has read; empty if none."""
        return next((name for name in names if name in self._read), "")

    def environ(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return a worker's variables with the changes that imports made."""
        merged = {**env, **self._set}
        return {name: value for name, value in merged.items() if value is not None}

    def changed_file(self) -> str:
        """Return a module's file that changed during or after its import; empty if none."""
        changed = (path for path, seen in self._files.items() if seen[0] > self._began or _time_and_size(path) != seen)
        return next(changed, "")


def _time_and_size(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _opened() -> set[str]:
    """Return open files and shared memory, which forks would share; a lock of multiprocessing is an example."""
    paths = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            paths.add(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue  # the descriptor that listed the directory
    with open("/proc/self/maps") as maps:
        fields = [line.split(None, 5) for line in maps]
    shared = {line[5].strip() if len(line) > 5 else "memory" for line in fields if line[1].endswith("s")}
    return {path for path in paths if not path.startswith("/proc/")} | shared


class RandomStates:
    """Random states after imports: each worker needs its own, so forks must not share those of the template."""

    def __init__(self) -> None:
        self._unseeded: list[random.Random] = []
        self._is_used = False  # whether imports used the generator of random.random()
        self._drawn: dict[str, int] = {}  # the random seeds with which frameworks initialised themselves

    @contextmanager
    def watch(self) -> Iterator[None]:
        seed, state = random.Random.seed, random.getstate()

        def noted_seed(generator: random.Random, a: Any = None, *rest: Any) -> None:
            if a is None:
                self._unseeded.append(generator)
            seed(generator, a, *rest)

        random.Random.seed = noted_seed  # type: ignore[assignment,method-assign]
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            random.Random.seed = seed  # type: ignore[method-assign]
            self._is_used = random.getstate() != state

    def find_spec(self, *_: object) -> None:
        """Called first for every import. It finds no module, but reads each framework's seed while the framework is
        still importing its own modules: no other code can have set a seed by then."""
        for name in ("torch", "paddle.base.core"):
            if name in sys.modules and name not in self._drawn:
                try:
                    self._drawn[name] = DEFAULT_GENERATOR[name](sys.modules[name]).initial_seed()
                except AttributeError:
                    continue  # the generator does not exist yet

    def why_unforkable(self) -> str:
        """Return why forks cannot be reseeded: an import set a seed, which all workers must have. Empty if they can."""
        if self._is_used or any(self._is_seeded(*one) for one in _default_generators().items()):
            return "an import seeded a random generator"
        return "a module has a random generator of its own" if _has_own_generators() else ""

    def _is_seeded(self, name: str, generator: Any) -> bool:
        if hasattr(generator, "initial_seed"):
            return bool(generator.initial_seed() != self._drawn.get(name))
        bits = generator._bit_generator  # noqa: SLF001  NumPy's
        return getattr(bits, "_seed_seq", bits) is None  # None once a seed was set

    def reseed(self) -> None:
        """Give a fork that becomes a worker random states of its own."""
        for generator in (*self._unseeded, *_default_generators().values()):
            generator.seed()
        if "multiprocessing.process" in sys.modules:
            sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)


# The default generators of modules that initialise a random state at import, such as that of numpy.random.rand().
DEFAULT_GENERATOR: dict[str, Callable[[Any], Any]] = {
    "numpy.random": lambda random: random.mtrand._rand,  # noqa: SLF001
    "torch": lambda torch: torch.default_generator,
    "paddle.base.core": lambda core: core.default_cpu_generator(),
}
KINDS = (("numpy.random", "Generator"), ("numpy.random", "RandomState"), ("torch", "Generator"))


def _default_generators() -> dict[str, Any]:
    return {name: get(sys.modules[name]) for name, get in DEFAULT_GENERATOR.items() if name in sys.modules}


def _has_own_generators() -> bool:
    """Whether a module created a generator, whose state may be meant to be the same in all workers."""
    kinds = [getattr(sys.modules[module], kind) for module, kind in KINDS if module in sys.modules]
    defaults = _default_generators().values()
    return any(type(one) in kinds and not any(one is other for other in defaults) for one in gc.get_objects())
