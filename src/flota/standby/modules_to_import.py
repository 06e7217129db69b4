"""Decides which modules a parked interpreter imports: those named by the user and, with `auto`, the script's own
imports, what its framework imports late, and what the first attempt imported.
Runs in workers' interpreters: Python 3.8."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import partial
from pkgutil import get_importer
from typing import Any

from flota.standby.script_imports import ScriptImports, import_changes_imports
from flota.standby.strategy import AUTO

# What a framework imports late: at its first optimizer, its first process group.
LATE = {
    "torch": ("torch._dynamo", "torch.distributed", "torch.nn.parallel.distributed"),
    "paddle": ("paddle.distributed.fleet", "paddle.optimizer"),
    "jax": ("jax.experimental.multihost_utils", "jax._src.distributed"),
    "tensorflow": ("tensorflow.python.distribute.collective_all_reduce_strategy",),
}


class ModulesToImport:
    """`required`: these must be importable; each with the variables that the script sets before. `optional`: these are
    imported if they can be."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.script: str = request["script"]
        self.is_module: bool = request["is_module"]
        self.folder = os.getcwd() if self.is_module else script_folder(self.script)
        self._is_installed = partial(is_installed, folder=self.folder)
        self.required: list[tuple[str, dict[str, str]]] = [(name, {}) for name in request["modules"] if name != AUTO]
        learnt: list[str] = []
        if AUTO in request["modules"]:
            found = ScriptImports(self._source(), self._is_installed)
            self.required += found.modules
            learnt = [] if found.changes_imports else self._safe(request["learnt"])
        self.names = list(dict.fromkeys(name for name, _ in self.required))
        self.variables = {name for _, settings in self.required for name in settings}
        packages = {name.partition(".")[0] for name in self.names}
        self.optional = [name for package, names in LATE.items() if package in packages for name in names] + learnt

    def _source(self) -> str:
        if self.is_module:
            return module_file(self.script, "__main__.py", [self.folder, *sys.path])
        return os.path.join(self.script, "__main__.py") if os.path.isdir(self.script) else self.script

    def _safe(self, learnt: list[str]) -> list[str]:
        """Those that are installed, unless one of the user's own changes what the others find or read."""
        own = [
            module_file(name, "__init__.py", [self.folder, *sys.path])
            for name in learnt
            if not self._is_installed(name)
        ]
        return [] if any(map(import_changes_imports, own)) else [name for name in learnt if self._is_installed(name)]


def script_folder(script: str) -> str:
    """Where Python looks first for what the script imports; a folder or an archive is that place itself."""
    if getattr(sys.flags, "safe_path", False):
        return ""
    return script if get_importer(script) else os.path.dirname(os.path.realpath(script))


def module_file(name: str, file_of_package: str, folders: Iterable[str]) -> str:
    """Where a module's source is, found without running the packages around it, as Python would."""
    path = name.replace(".", os.sep)
    tails = (f"{path}.py", os.path.join(path, file_of_package))
    files = (os.path.join(folder, tail) for folder in folders for tail in tails)
    return next(filter(os.path.isfile, files), "")


def is_installed(name: str, folder: str) -> bool:
    """Whether it is Python's own or an installed package's. The user's own code may do anything when it is imported,
    and is what changes between two attempts."""
    import sysconfig
    from importlib.machinery import PathFinder

    package = name.partition(".")[0]
    if package in sys.builtin_module_names:
        return True
    is_own = package in ("", "__main__", "sitecustomize", "usercustomize")
    spec = None if is_own or (folder and PathFinder.find_spec(package, [folder])) else PathFinder.find_spec(package)
    if spec is None:
        return False
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    roots = {sysconfig.get_paths()[key] + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(
        place.startswith(tuple(roots)) or "dist-packages" in place or "site-packages" in place for place in places
    )
