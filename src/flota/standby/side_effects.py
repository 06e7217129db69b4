"""Whether statements change what imports find, or read, before Python comes to the next one. Reads files, runs nothing.

Runs in workers' interpreters: Python 3.8.
"""

from __future__ import annotations

import ast
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

READING = ("get", "items", "keys", "values", "copy")
CHANGING = ("environ", "putenv", "unsetenv", "chdir")
SYS = ("path", "meta_path", "path_hooks")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTS = (ast.Import, ast.ImportFrom)


class Effects:
    """Of one file's statements, with the functions of its own that they call and the user's own modules that they
    import, which are at this `place`."""

    def __init__(self, path: str, body: list[ast.stmt], place: str, seen: set[str] | None = None) -> None:
        self._path = path
        self._place = place
        self._own: dict[str, Definition] = {node.name: node for node in body if isinstance(node, DEFINITIONS)}
        self._seen = {path} if seen is None else seen  # files: one that imports itself has nothing new to say

    def touches(self, statement: ast.stmt) -> bool:
        """A function's body is run later, when it is called."""
        return not isinstance(statement, DEFINITIONS) and self._runs(statement, set())

    def _runs(self, part: ast.AST, called: set[str]) -> bool:
        nodes = list(ast.walk(part))
        if _changes(nodes) or any(self._import_touches(node) for node in nodes if isinstance(node, IMPORTS)):
            return True
        names = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        new = names.intersection(self._own) - called
        called |= new
        return any(self._runs(self._own[name], called) for name in new)

    def _import_touches(self, statement: ast.Import | ast.ImportFrom) -> bool:
        files = [path for path in self.own_files(statement) if path not in self._seen]
        self._seen.update(files)
        for path in files:
            body = parse(path)
            effects = Effects(path, body, self._place, self._seen)
            if any(effects.touches(one) for one in body):
                return True
        return False

    def own_files(self, statement: ast.Import | ast.ImportFrom) -> list[str]:
        """The user's own that an import runs."""
        root, names = self._place, [alias.name for alias in statement.names]
        if isinstance(statement, ast.ImportFrom):
            for level in range(statement.level):
                root = os.path.dirname(root if level else self._path)
            names = [f"{statement.module or ''}.{name}" for name in names]
        return [path for name in names for path in _files(root, name)] if root else []


def parse(path: str) -> list[ast.stmt]:
    """Nothing where it is no Python: Python itself will say it, to whom it concerns."""
    try:
        with open(path, "rb") as file:
            return ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        return []


def _files(root: str, name: str) -> Iterator[str]:
    for part in filter(None, name.split(".")):
        root = os.path.join(root, part)
        yield from filter(os.path.isfile, (f"{root}.py", os.path.join(root, "__init__.py")))


def is_environ(node: ast.expr) -> bool:
    return getattr(node, "attr", getattr(node, "id", "")) == "environ"


def _changes(nodes: Iterable[ast.AST]) -> bool:
    """What it only reads is as well read by imports."""
    used = read = 0
    for node in nodes:
        if isinstance(node, (ast.Attribute, ast.Name)):
            used += getattr(node, "attr", getattr(node, "id", "")) in CHANGING
        if isinstance(node, ast.Attribute):
            read += node.attr in READING and is_environ(node.value)
            if node.attr in SYS and isinstance(node.value, ast.Name) and node.value.id == "sys":
                return True
        elif isinstance(node, ast.Subscript):
            read += isinstance(node.ctx, ast.Load) and is_environ(node.value)
    return used > read
