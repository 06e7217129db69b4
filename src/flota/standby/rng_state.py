"""Random states after imports: cold workers have one each, so forks must not share the template's.
Runs in workers' interpreters: Python 3.8."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class RandomStates:
    """Notes during imports which generators of `random` have been seeded."""

    def __init__(self) -> None:
        self._unseeded: list[random.Random] = []
        self._is_used = False  # the generator behind random.random and its like

    @contextmanager
    def watch(self) -> Iterator[None]:
        seed, state = random.Random.seed, random.getstate()

        def noted_seed(generator: random.Random, a: Any = None, *rest: Any) -> None:
            if a is None:
                self._unseeded.append(generator)
            seed(generator, a, *rest)

        random.Random.seed = noted_seed  # type: ignore[assignment,method-assign]
        try:
            yield
        finally:
            random.Random.seed = seed  # type: ignore[method-assign]
            self._is_used = random.getstate() != state

    def why_unforkable(self) -> str:
        """A seed that an import has set counts for all workers: `draw_again` would undo it."""
        if self._is_used or any(map(_is_seeded, _default_generators())):
            return "an import has seeded a random generator"
        return "a module has a random generator of its own" if _has_own_generators() else ""

    def draw_again(self) -> None:
        """In a fork that becomes a worker."""
        for generator in (*self._unseeded, *_default_generators()):
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


def _default_generators() -> list[Any]:
    return [get(sys.modules[name]) for name, get in DEFAULT_GENERATOR.items() if name in sys.modules]


def _is_seeded(generator: Any) -> bool:
    if hasattr(generator, "initial_seed"):
        return bool(generator.initial_seed() < 1 << 32)  # frameworks draw their own from a far larger range
    bits = generator._bit_generator  # noqa: SLF001  NumPy's
    return getattr(bits, "_seed_seq", bits) is None  # it has one until a seed is set


def _has_own_generators() -> bool:
    """Whether there is one that may have been meant to be the same for all workers."""
    kinds = [getattr(sys.modules[module], kind) for module, kind in KINDS if module in sys.modules]
    defaults = _default_generators()
    return any(type(one) in kinds and not any(one is other for other in defaults) for one in gc.get_objects())
