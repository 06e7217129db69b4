"""Reads from a script's text which imports can be done before it runs. Runs nothing.
Runs in workers' interpreters: Python 3.8."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

READING = ("get", "items", "keys", "values", "copy")  # methods of os.environ
CHANGING = ("environ", "putenv", "unsetenv", "chdir")
SYS = ("path", "meta_path", "path_hooks")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class ScriptImports:
    """`modules`: what the script imports at its top level, in order, each with the variables that it sets before.

    They end where the script may change what imports find or read: in its own text, functions included, or by an import
    of something that is not installed. `changes_imports`: whether its text does so, there or later.
    """

    def __init__(self, path: str, is_installed: Callable[[str], bool]) -> None:
        self.modules: list[tuple[str, dict[str, str]]] = []
        variables: dict[str, str] = {}
        statements = _parse(path)
        while statements:
            nodes = list(ast.walk(statements[0]))
            names = [name for node in nodes for name in _imported(node)]
            if setting := _variable_setting(statements[0]):
                variables.update([setting])
            elif _changes_imports(nodes) or not all(map(is_installed, names)):
                break
            elif isinstance(statements[0], (ast.Import, ast.ImportFrom)):
                self.modules += [(name, variables) for name in names]
                variables = {}
            del statements[0]
        later = [node for statement in statements for node in ast.walk(statement)]
        self.changes_imports = bool(variables) or _changes_imports(later)


def import_changes_imports(path: str) -> bool:
    """Whether the statements do so that run when this file is imported. Those of functions run when they are called."""
    statements = [statement for statement in _parse(path) if not isinstance(statement, DEFINITIONS)]
    return _changes_imports([node for statement in statements for node in ast.walk(statement)])


def _parse(path: str) -> list[ast.stmt]:
    """`import a, b` becomes `import a`, then `import b`. Nothing where it is not Python: Python itself reports that."""
    try:
        with open(path, "rb") as file:
            body = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        return []
    parts = [[ast.Import([name]) for name in one.names] if isinstance(one, ast.Import) else [one] for one in body]
    return [statement for part in parts for statement in part]


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module if node.module and not node.level else ""]  # a relative import is of the user's own code
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _variable_setting(statement: ast.stmt) -> tuple[str, str] | None:
    """The name and value in `os.environ["A"] = "1"`."""
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value.value
        if isinstance(target, ast.Subscript) and _is_environ(target.value):
            index = getattr(target.slice, "value", "")  # of a constant; in Python 3.8 the constant itself
            name = getattr(index, "value", index)
            return (name, value) if isinstance(name, str) and isinstance(value, str) else None
    return None


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
