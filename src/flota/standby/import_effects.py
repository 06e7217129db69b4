"""What imports do to a process besides adding modules: some of it a worker must have, some of it forks must not share.
Runs in workers' interpreters: Python 3.8."""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# With one thread OpenBLAS can be forked. The worker sets its own number again.
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS")
# Variables that libraries in C read when they are loaded: Python does not see it.
READ_BY_LIBRARIES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
READ_BY_PADDLE = ("FLAGS_selected_gpus", "FLAGS_selected_xpus", "FLAGS_selected_npus", "FLAGS_selected_mlus")


class ImportEffects:
    def __init__(self) -> None:
        self.random = RandomStates()
        self.opened: list[str] = []  # files, devices and shared memory
        self._read: dict[str, str | None] = {}  # variables that imports read, with the value before the imports
        self._set: dict[str, str | None] = {}  # variables that imports set; None: removed
        self._files: dict[str, tuple[int, int]] = {}  # time and size of each module's file

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
                listed.remove(name)  # a copy of all variables lists a name before it reads the value
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

    def misread(self, env: Mapping[str, str]) -> str:
        """A variable that an import read, and that has another value in this environment."""
        return next((name for name, value in self._read.items() if env.get(name) != value), "")

    def environ(self, env: Mapping[str, str]) -> dict[str, str]:
        """A worker's variables, as its imports would have changed them."""
        merged = {**env, **self._set}
        return {name: value for name, value in merged.items() if value is not None}

    def changed_file(self) -> str:
        """A module's file that changed after, or during, its import."""
        changed = (path for path, seen in self._files.items() if seen[0] > self._began or _time_and_size(path) != seen)
        return next(changed, "")


def _time_and_size(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _opened() -> set[str]:
    """What is open, and memory that forks would have in common, such as a lock of multiprocessing."""
    paths = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            paths.add(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue  # the listing's own
    with open("/proc/self/maps") as maps:
        fields = [line.split(None, 5) for line in maps]
    shared = {line[5].strip() if len(line) > 5 else "memory" for line in fields if line[1].endswith("s")}
    return {path for path in paths if not path.startswith("/proc/")} | shared


class RandomStates:
    """Random states after imports: cold workers have one each, so forks must not share the template's."""

    def __init__(self) -> None:
        self._unseeded: list[random.Random] = []
        self._is_used = False  # the generator behind random.random and its like
        self._drawn: dict[str, int] = {}  # the seeds that frameworks have drawn for themselves

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
        """A finder that is asked first for every module. It finds none, but sees each framework's seed while that
        framework is still importing its own modules: no one can have given another seed yet."""
        for name in ("torch", "paddle.base.core"):
            if name in sys.modules and name not in self._drawn:
                try:
                    self._drawn[name] = DEFAULT_GENERATOR[name](sys.modules[name]).initial_seed()
                except AttributeError:
                    continue  # it has none yet

    def why_unforkable(self) -> str:
        """A seed that an import has set counts for all workers: `draw_again` would undo it."""
        if self._is_used or any(self._is_seeded(*one) for one in _default_generators().items()):
            return "an import has seeded a random generator"
        return "a module has a random generator of its own" if _has_own_generators() else ""

    def _is_seeded(self, name: str, generator: Any) -> bool:
        if hasattr(generator, "initial_seed"):
            return bool(generator.initial_seed() != self._drawn.get(name))
        bits = generator._bit_generator  # noqa: SLF001  NumPy's
        return getattr(bits, "_seed_seq", bits) is None  # it has one until a seed is set

    def draw_again(self) -> None:
        """In a fork that becomes a worker."""
        for generator in (*self._unseeded, *_default_generators().values()):
            generator.seed()
        if "multiprocessing.process" in sys.modules:
            sys.modules["multiprocessing.process"].current_process().authkey = os.urandom(32)


# Modules that draw a random state when they are imported. Behind numpy.random.rand and its like is a generator as well.
DEFAULT_GENERATOR: dict[str, Callable[[Any], Any]] = {
    "numpy.random": lambda random: random.mtrand._rand,  # noqa: SLF001
    "torch": lambda torch: torch.default_generator,
    "paddle.base.core": lambda core: core.default_cpu_generator(),
}
KINDS = (("numpy.random", "Generator"), ("numpy.random", "RandomState"), ("torch", "Generator"))


def _default_generators() -> dict[str, Any]:
    return {name: get(sys.modules[name]) for name, get in DEFAULT_GENERATOR.items() if name in sys.modules}


def _has_own_generators() -> bool:
    """Whether there is one that may have been meant to be the same for all workers."""
    kinds = [getattr(sys.modules[module], kind) for module, kind in KINDS if module in sys.modules]
    defaults = _default_generators().values()
    return any(type(one) in kinds and not any(one is other for other in defaults) for one in gc.get_objects())
