"""What imports leave behind in a process besides modules: some of it a worker must have, some a fork must not share.

Runs in workers' interpreters: Python 3.8.
"""

from __future__ import annotations

import gc
import os
import sys

from flota.standby.rng_state import Chance
from flota.standby.strategy import READ_BY_LIBRARIES, READ_BY_PADDLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


class Traces:
    """Watches imports between `begin` and `end`."""

    def __init__(self) -> None:
        self.read: dict[str, str | None] = {}  # variables that imports have asked for, and what they found
        self.changed: dict[str, str | None] = {}  # variables that imports have set; None: removed
        self.chance = Chance()
        self.opened: list[str] = []  # what is open, or shared, and was not before
        self._given: list[dict[str, str]] = []  # of the variables that are held back, what they were at first
        self._expected: set[str] = set()
        self._listed: set[str] = set()

    def begin(self, held_back: Iterable[str], expected: Iterable[str]) -> None:
        """`held_back`: variables that are nobody's wish but ours. `expected`: those that the script itself will set."""
        held = set(held_back)
        self._given = self._given or [{name: os.environ[name] for name in held & set(os.environ)}]
        self._environ = {name: value for name, value in os.environ.items() if name not in held}
        self._environ.update(self._given[0])
        self._held_back = held
        self._expected |= set(expected)
        self._open = set(_open()) | set(_shared())
        self._keys = os.environ.encodekey, os.environ.decodekey
        self.chance.begin()
        os.environ.encodekey = self._noted_key(os.environ.encodekey)
        os.environ.decodekey = self._noted_listing(os.environ.decodekey)

    def _noted_key(self, encode: Any) -> Any:
        def noted(name: str) -> object:
            if name in self._listed:
                self._listed.remove(name)  # whoever copies all variables asks for none
            else:
                self.read.setdefault(name, self._environ.get(name))
            return encode(name)

        return noted

    def _noted_listing(self, decode: Any) -> Any:
        def noted(key: bytes) -> str:
            name: str = decode(key)
            self._listed.add(name)
            return name

        return noted

    def end(self) -> None:
        self.chance.end()
        os.environ.encodekey, os.environ.decodekey = self._keys
        now, before = dict(os.environ), self._environ
        for name in {*now, *before} - self._held_back - self._expected:
            if now.get(name) != before.get(name):
                self.changed[name] = now.get(name)
        # What libraries in C ask for, nobody sees.
        for name in READ_BY_LIBRARIES + (READ_BY_PADDLE if "paddle" in sys.modules else ()):
            self.read.setdefault(name, before.get(name))
        self.opened = sorted((set(_open()) | set(_shared())) - self._open)

    def misread(self, env: Mapping[str, str]) -> str:
        """A variable that an import has found to be other than this worker's."""
        unexpected = {name: value for name, value in self.read.items() if name not in self._expected}
        return next((name for name, value in unexpected.items() if env.get(name) != value), "")

    def environ(self, env: Mapping[str, str]) -> dict[str, str]:
        """A worker's variables, as its imports would have changed them."""
        merged = {**env, **{name: value for name, value in self.changed.items() if value is not None}}
        return {name: value for name, value in merged.items() if self.changed.get(name, "") is not None}


def own_generators() -> bool:
    """Whether a module has a random generator of its own: who knows whether it was meant to be the same for all."""
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    kinds: set[type] = set()
    known = []
    if numpy is not None:
        kinds |= {numpy.Generator, numpy.RandomState}
        known.append(numpy.mtrand._rand)  # noqa: SLF001  the one behind numpy.random.rand and its like
    if torch is not None:
        kinds.add(torch.Generator)
        known.append(torch.default_generator)
    return any(type(one) in kinds and not any(one is other for other in known) for one in gc.get_objects())


def _open() -> list[str]:
    paths = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            paths.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue  # the listing's own
    return [path for path in paths if not path.startswith("/proc/")]


def _shared() -> list[str]:
    """Memory that forks would have in common: a lock of multiprocessing, for one."""
    with open("/proc/self/maps") as maps:
        fields = [line.split(None, 5) for line in maps]
    return [line[5].strip() if len(line) > 5 else "memory" for line in fields if line[1].endswith("s")]
