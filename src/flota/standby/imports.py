"""Which modules a parked interpreter imports, and how: all at once, or so that nobody else's work is slowed down.

Runs in workers' interpreters: Python 3.8.
"""

from __future__ import annotations

import os
import sys
import time

from flota.standby.script_imports import Head
from flota.standby.strategy import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

# What a framework imports late: at its first optimizer, its first process group.
LATE = {
    "torch": ("torch._dynamo", "torch.distributed", "torch.nn.parallel.distributed"),
    "paddle": ("paddle.distributed.fleet", "paddle.optimizer"),
    "jax": ("jax.experimental.multihost_utils", "jax._src.distributed"),
    "tensorflow": ("tensorflow.python.distribute.collective_all_reduce_strategy",),
}
SHARE = 0.1  # of one CPU, for imports that can wait, while all CPUs have work


class ImportWish:
    """What the node asks for: names, and where the script is whose own imports `auto` stands for."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.script: str = order["script"]
        self.is_module: bool = order["is_module"]
        self.place = os.getcwd() if self.is_module else script_place(self.script)
        head = Head(self._source(), self.place) if AUTO in order["modules"] else Head()
        named = [name for name in order["modules"] if name != AUTO]
        always = [(name, set_) for name, set_ in head.always if is_installed(name, self.place)]
        # These must be there; each with the variables that the script sets before.
        self.steps: list[tuple[str, dict[str, str]]] = [*((name, {}) for name in named), *always]
        self.wanted = list(dict.fromkeys(name for name, _ in self.steps))
        self.variables = {name for _, variables in self.steps for name in variables}
        tops = {name.partition(".")[0] for name in self.wanted}
        late = [name for top, names in LATE.items() if top in tops for name in names]
        seen = self._installed(order["seen"]) if order["seen"] and not head.is_opaque else []
        self.welcome = self._installed(head.maybe) + late + seen  # these are as well there, if they can be imported

    def _installed(self, names: list[str]) -> list[str]:
        return [name for name in names if is_installed(name, self.place)]

    def _source(self) -> str:
        if self.is_module:
            return module_file(self.script, [self.place, *sys.path])
        return os.path.join(self.script, "__main__.py") if os.path.isdir(self.script) else self.script


def script_place(script: str) -> str:
    """Where Python looks first for what the script imports; a folder or an archive is itself that place."""
    if getattr(sys.flags, "safe_path", False):
        return ""
    with open(script if os.path.isfile(script) else os.devnull, "rb") as file:
        archive = file.read(2) == b"PK"
    return script if archive or os.path.isdir(script) else os.path.dirname(os.path.realpath(script))


def module_file(name: str, places: Iterable[str]) -> str:
    """Where a module's source is, without running the packages around it as Python would."""
    path = name.replace(".", os.sep)
    for place in places:
        for tail in (f"{path}.py", os.path.join(path, "__main__.py")):
            if os.path.isfile(os.path.join(place, tail)):
                return os.path.join(place, tail)
    return ""


def is_installed(name: str, place: str) -> bool:
    """Whether it is Python's own or a package's. What is the user's own may do anything when it is imported, and is
    what changes between two attempts."""
    import sysconfig
    from importlib.machinery import PathFinder

    top = name.partition(".")[0]
    if top in ("__main__", "sitecustomize", "usercustomize") or (place and PathFinder.find_spec(top, [place])):
        return False
    spec = PathFinder.find_spec(top)
    if spec is None:
        return False
    installed = [sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    inside = [one for one in places for root in installed if one.startswith(root + os.sep)]
    return bool(inside) or any("dist-packages" in one or "site-packages" in one for one in places)


def import_all(wish: ImportWish, hurry: Callable[[], bool] | None) -> str:
    """Why one that must be there could not be imported; empty when all are. `hurry`: whether to stop being patient."""
    main = sys.modules["__main__"]
    if not wish.is_module:
        main.__file__ = wish.script  # as modules find it that ask whether they are in a shell
    path = [wish.place] if wish.place else []
    sys.path[:0] = path
    if hurry:
        sys.meta_path.insert(0, Patience(hurry))
    try:
        return _import_all(wish)
    finally:
        sys.path[:] = [place for place in sys.path if place not in path]
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Patience)]
        vars(main).pop("__file__", None)


def _import_all(wish: ImportWish) -> str:
    from importlib import import_module

    for name, variables in wish.steps:
        os.environ.update(variables)
        try:
            import_module(name)
        except BaseException as error:  # a module may do anything, ending the program included
            return f"cannot import `{name}`: {type(error).__name__}: {error}"
    for name in wish.welcome:
        try:
            import_module(name)
        except BaseException:  # noqa: S110  the script, which may need it, will say so
            pass
    return ""


class Patience:
    """Asked first for every module, it finds none; but while all CPUs are busy, it lets time pass.

    A low priority would be simpler, but nobody can take it back without a privilege, and then it would be the worker's.
    """

    def __init__(self, hurry: Callable[[], bool]) -> None:
        self._hurry = hurry
        self._used = time.process_time()

    def find_spec(self, *_: object) -> None:
        used = time.process_time()
        owed = (used - self._used) * (1 / SHARE - 1)
        self._used = used
        until = time.monotonic() + owed
        while owed > 0 and not self._hurry() and is_busy():
            time.sleep(min(0.1, owed))
            owed = until - time.monotonic()


def is_busy() -> bool:
    """Whether more processes want a CPU than there are."""
    try:
        with open("/proc/loadavg") as file:
            running = int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return True
    return running > len(os.sched_getaffinity(0))
