"""Random states after imports. Forks have one, where cold starts have one each, unless an import has chosen it for all.

Runs in workers' interpreters: Python 3.8.
"""

from __future__ import annotations

import os
import random
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Chance:
    """Watches imports between `begin` and `end`."""

    def __init__(self) -> None:
        self._drawn: list[random.Random] = []  # generators that nobody gave a seed
        self._first_seeds: dict[str, int] = {}  # of frameworks' own generators, as they drew them themselves
        self._is_chosen = False  # the state behind random.random and its like
        self._state: Any = None

    def begin(self) -> None:
        self._originals = random.Random.seed, random.seed, random.setstate
        random.Random.seed = self._noting(random.Random.seed)  # type: ignore[method-assign]
        random.seed, random.setstate = self._choosing(random.seed), self._choosing(random.setstate)
        sys.meta_path.insert(0, self)

    def _noting(self, seed: Any) -> Any:
        def noted(generator: random.Random, a: object = None, *rest: object) -> None:
            if a is None:
                self._drawn.append(generator)
            seed(generator, a, *rest)

        return noted

    def _choosing(self, choose: Any) -> Any:
        def chosen(a: object = None, *rest: object) -> None:
            self._is_chosen = a is not None
            choose(a, *rest)

        return chosen

    def find_spec(self, *_: object) -> None:
        """Asked first for every module, it finds none. But a framework imports more of itself after its generator is
        there, and before anybody can have given that a seed."""
        for name, first_seed in FIRST_SEED.items():
            if name in sys.modules and name not in self._first_seeds:
                try:
                    self._first_seeds[name] = first_seed(sys.modules[name])
                except AttributeError:
                    continue  # it is not there yet

    def end(self) -> None:
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        random.Random.seed, random.seed, random.setstate = self._originals  # type: ignore[method-assign]
        self._state = random.getstate()

    def restore(self) -> None:
        """Python itself gives every fork another one."""
        if self._is_chosen:
            random.setstate(self._state)

    def scatter(self) -> None:
        """In a fork that becomes a worker."""
        self.restore()
        for generator in self._drawn:
            generator.seed()
        for name, draw in DRAW.items():
            if name in sys.modules and not self._is_seeded(name):
                draw(sys.modules[name])

    def _is_seeded(self, name: str) -> bool:
        if name == "numpy.random":
            generator = sys.modules[name].mtrand._rand._bit_generator  # noqa: SLF001  behind numpy.random.rand and its like
            return getattr(generator, "_seed_seq", generator) is None  # there is one until somebody has given a seed
        return name in self._first_seeds and FIRST_SEED[name](sys.modules[name]) != self._first_seeds[name]


def _draw_key(process: Any) -> None:
    process.current_process().authkey = os.urandom(32)


# Modules that draw a random state when they are imported, and how they draw another one.
DRAW: dict[str, Callable[[Any], object]] = {
    "multiprocessing.process": _draw_key,
    "numpy.random": lambda random: random.seed(),
    "torch": lambda torch: torch.default_generator.seed(),
    "paddle.base.core": lambda core: core.default_cpu_generator().seed(),
}
FIRST_SEED: dict[str, Callable[[Any], int]] = {
    "torch": lambda torch: int(torch.default_generator.initial_seed()),
    "paddle.base.core": lambda core: int(core.default_cpu_generator().initial_seed()),
}
