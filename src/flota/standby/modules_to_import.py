"""Decides which modules a parked interpreter imports: those named by the user and, with `auto`, the script's own
imports, as far as its text says that they can be done before it runs, what its framework imports late, and what the
first attempt imported. Runs in workers' interpreters: Python 3.8."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pkgutil import get_importer
from typing import Any

from flota.standby.strategy import AUTO

# What a framework imports late: at its first optimizer, its first process group.
LATE = {
    "torch": ("torch._dynamo", "torch.distributed", "torch.nn.parallel.distributed"),
    "paddle": ("paddle.distributed.fleet", "paddle.optimizer"),
    "jax": ("jax.experimental.multihost_utils", "jax._src.distributed"),
    "tensorflow": ("tensorflow.python.distribute.collective_all_reduce_strategy",),
}

# What changes what imports find or read, and the methods of os.environ that only read.
CHANGING = ("environ", "putenv", "unsetenv", "chdir", "load_dotenv")
SYS = ("path", "meta_path", "path_hooks")
READING = ("get", "items", "keys", "values", "copy")


class ModulesToImport:
    """`required`: these must be importable. `optional`: these are imported if they can be."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.script: str = request["script"]
        self.is_module: bool = request["is_module"]
        self.folder = os.getcwd() if self.is_module else script_folder(self.script)
        self._is_installed = partial(is_installed, folder=self.folder)
        self.required: list[str] = [name for name in request["modules"] if name != AUTO]
        learnt: list[str] = []
        if AUTO in request["modules"]:
            found, changes_imports = script_imports(self._source(), self._is_installed)
            self.required += found
            learnt = [] if changes_imports else self._safe(request["learnt"])
        self.required = list(dict.fromkeys(self.required))
        packages = {name.partition(".")[0] for name in self.required}
        self.optional = [name for package, names in LATE.items() if package in packages for name in names] + learnt

    def _source(self) -> str:
        if self.is_module:
            return module_file(self.script, "__main__.py", [self.folder, *sys.path])
        return os.path.join(self.script, "__main__.py") if os.path.isdir(self.script) else self.script

    def _safe(self, learnt: list[str]) -> list[str]:
        """Those that are installed, unless one of the user's own changes what the others find or read. Functions count
        as well: what runs them while modules are imported is not followed."""
        installed = [name for name in learnt if self._is_installed(name)]
        folders = [self.folder, *sys.path]
        own = [_parse(module_file(name, "__init__.py", folders)) for name in learnt if name not in installed]
        return [] if any(_changes_imports(_walk(statements)) for statements in own) else installed


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
    if package in (*sys.builtin_module_names, "flota"):
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


def script_imports(path: str, is_installed: Callable[[str], bool]) -> tuple[list[str], bool]:
    """What the script imports at its top level, in order, up to where it may change what imports find or read: in its
    own text, functions included, or by an import of something that is not installed. And whether its text does so."""
    modules: list[str] = []
    statements = _parse(path)
    for statement in statements:
        nodes = _walk([statement])
        names = [name for node in nodes for name in _imported(node)]
        if _changes_imports(nodes) or not all(map(is_installed, names)):
            break
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            modules += names
    return modules, any(_changes_imports(_walk([statement])) for statement in statements)


def _parse(path: str) -> list[ast.stmt]:
    """`import a, b` becomes `import a`, then `import b`. Nothing where it is not Python: Python itself reports that."""
    try:
        with open(path, "rb") as file:
            body = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        return []
    parts = [[ast.Import([name]) for name in one.names] if isinstance(one, ast.Import) else [one] for one in body]
    return [statement for part in parts for statement in part]


def _walk(statements: list[ast.stmt]) -> list[ast.AST]:
    return [node for statement in statements for node in ast.walk(statement)]


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module if node.module and not node.level else ""]  # a relative import is of the user's own code
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _is_environ(node: ast.expr) -> bool:
    return getattr(node, "attr", getattr(node, "id", "")) == "environ"


def _changes_imports(nodes: Iterable[ast.AST]) -> bool:
    """Whether they use what imports depend on, other than to read a variable."""
    used = read = 0
    for node in nodes:
        if isinstance(node, (ast.Attribute, ast.Name)):
            used += getattr(node, "attr", getattr(node, "id", "")) in CHANGING
        if isinstance(node, ast.Attribute):
            read += node.attr in READING and _is_environ(node.value)
            if node.attr in SYS and isinstance(node.value, ast.Name) and node.value.id == "sys":
                return True
        elif isinstance(node, ast.Subscript):
            read += isinstance(node.ctx, ast.Load) and _is_environ(node.value)
    return used > read
