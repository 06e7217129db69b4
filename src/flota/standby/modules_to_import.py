"""Decides which modules a parked interpreter imports: those named by the user and, with `auto`, the script's top-level
imports as far as they are safe before the script runs, what its framework imports late, and what the first attempt
imported. Runs in workers' interpreters: Python 3.8."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pkgutil import get_importer
from typing import Any

from flota.standby.strategy import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.job.spec import Command

# Modules that a framework imports late: with the first optimizer or the first process group.
LATE = {
    "torch": ("torch._dynamo", "torch.distributed", "torch.nn.parallel.distributed"),
    "paddle": ("paddle.distributed.fleet", "paddle.optimizer"),
    "jax": ("jax.experimental.multihost_utils", "jax._src.distributed"),
    "tensorflow": ("tensorflow.python.distribute.collective_all_reduce_strategy",),
}

# Names whose use may change what imports find or read, and the methods of os.environ that only read.
CHANGING = ("environ", "putenv", "unsetenv", "chdir", "load_dotenv")
SYS = ("path", "meta_path", "path_hooks")
READING = ("get", "items", "keys", "values", "copy")


class ModulesToImport:
    """`required` modules must be importable; `optional` ones are imported if possible."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.script: str = request["script"]
        self.is_module: bool = request["is_module"]
        self.folder = os.getcwd() if self.is_module else script_folder(self.script)
        self._is_installed = partial(is_installed, folder=self.folder)
        self.required: list[str] = [name for name in request["modules"] if name != AUTO]
        learnt: list[str] = []
        if AUTO in request["modules"]:
            source = source_file(self.script, [self.folder, *sys.path], is_module=self.is_module)
            found, changes_imports = script_imports(source, self._is_installed)
            self.required += found
            learnt = [] if changes_imports else self._safe(request["learnt"])
        self.required = list(dict.fromkeys(self.required))
        packages = {name.partition(".")[0] for name in self.required}
        self.optional = [name for package, names in LATE.items() if package in packages for name in names] + learnt

    def _safe(self, learnt: list[str]) -> list[str]:
        """Return the installed modules; none if a module of the user changes what imports find or read.

        Code inside functions counts as well: calls during imports are not analysed.
        """
        installed = [name for name in learnt if self._is_installed(name)]
        folders = [self.folder, *sys.path]
        own = [_parse(module_file(name, "__init__.py", folders)) for name in learnt if name not in installed]
        return [] if any(_changes_imports(_walk(statements)) for statements in own) else installed


def known_modules(command: Command, modules: Sequence[str]) -> list[str]:
    """Return the modules that a parked interpreter will import, as far as they are known without that interpreter."""
    named = [name for name in modules if name != AUTO]
    if AUTO not in modules:
        return named
    source = source_file(command.target, [os.getcwd()], is_module=command.kind == "module")
    return named + script_imports(source, bool)[0]


def likely_modules(command: Command, modules: Sequence[str]) -> list[str]:
    """The same, but up to the first module of the user, where `auto` stops. It is looked for beside the script."""
    if AUTO not in modules:
        return list(modules)
    folder = os.getcwd() if command.kind == "module" else script_folder(command.target)
    source = source_file(command.target, [os.getcwd()], is_module=command.kind == "module")
    named = [name for name in modules if name != AUTO]
    return named + script_imports(source, lambda name: bool(name) and not _is_beside(name, folder))[0]


def _is_beside(name: str, folder: str) -> bool:
    return bool(folder and module_file(name.partition(".")[0], "__init__.py", [folder]))


def source_file(script: str, folders: Iterable[str], *, is_module: bool) -> str:
    """Return the file that runs as `__main__`. A module is looked for in these folders."""
    if is_module:
        return module_file(script, "__main__.py", folders)
    return os.path.join(script, "__main__.py") if os.path.isdir(script) else script


def script_folder(script: str) -> str:
    """Return where Python first looks for the script's imports: the script itself if it is a folder or an archive."""
    if getattr(sys.flags, "safe_path", False):
        return ""
    return script if get_importer(script) else os.path.dirname(os.path.realpath(script))


def module_file(name: str, file_of_package: str, folders: Iterable[str]) -> str:
    """Find a module's source file. Unlike Python, this does not import its parent packages."""
    path = name.replace(".", os.sep)
    tails = (f"{path}.py", os.path.join(path, file_of_package))
    files = (os.path.join(folder, tail) for folder in folders for tail in tails)
    return next(filter(os.path.isfile, files), "")


def is_installed(name: str, folder: str) -> bool:
    """Whether a module belongs to Python or to an installed package. The user's own code may do anything when it is
    imported, and may change between two attempts."""
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
    """Return the script's top-level imports, and whether the script changes what imports find or read.

    The list ends where the script may make such a change: in its own code, functions included, or by importing a module
    that is not installed.
    """
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
    """Parse a file, with `import a, b` split in two. Returns nothing if it is not Python: the worker reports that."""
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
        return [node.module if node.module and not node.level else ""]  # relative imports are of the user's own code
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _is_environ(node: ast.expr) -> bool:
    return getattr(node, "attr", getattr(node, "id", "")) == "environ"


def _changes_imports(nodes: Iterable[ast.AST]) -> bool:
    """Whether the code uses something that imports depend on, other than reading a variable."""
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
