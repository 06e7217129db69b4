"""The beginning of a script, as far as its imports can be done before it runs.

Runs in workers' interpreters: Python 3.8.
"""

from __future__ import annotations

import ast
import os

READING = ("get", "items", "keys", "values", "copy")
SYS = ("path", "meta_path", "path_hooks")


class Head:
    """What it imports, always or maybe, in order, each with the variables that it sets before that.

    Opaque: before an import something is done to what imports depend on, and nobody can know the outcome. What follows
    is not taken.
    """

    def __init__(self) -> None:
        self.always: list[tuple[str, dict[str, str]]] = []
        self.maybe: list[str] = []
        self.is_opaque = False


def read_head(path: str) -> Head:
    """Not what its functions import when they are called."""
    head = Head()
    try:
        with open(path, "rb") as file:
            body = ast.parse(file.read()).body
    except (OSError, SyntaxError, ValueError):
        return head  # Python itself will say it, to whom it concerns
    variables: dict[str, str] = {}
    touched = False
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            if touched:
                head.is_opaque = True
                break
            head.always += [(name, variables) for name in _names(statement)]
            variables = {}
        elif not _sets_variable(statement, variables):
            touched = touched or _touches(statement)
            head.maybe += [] if touched else _inner_names(statement)
    return head


def _names(statement: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    return [statement.module] if statement.module and not statement.level else []


def _inner_names(statement: ast.AST) -> list[str]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return _names(statement)
    if isinstance(statement, (ast.If, ast.Try, ast.With)):
        return [name for child in ast.iter_child_nodes(statement) for name in _inner_names(child)]
    return []


def _sets_variable(statement: ast.stmt, variables: dict[str, str]) -> bool:
    """`os.environ["A"] = "1"` or `os.environ.setdefault("A", "1")`."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Subscript) and _is_environ(target.value):
            # Python 3.8 has the index in a box of its own.
            return _note([getattr(target.slice, "value", target.slice), statement.value], variables)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if isinstance(call.func, ast.Attribute) and call.func.attr == "setdefault" and _is_environ(call.func.value):
            given: dict[str, str] = {}
            noted = len(call.args) == 2 and _note(call.args, given)
            variables.update({name: value for name, value in given.items() if name not in os.environ})
            return noted
    return False


def _note(pair: list[ast.expr], variables: dict[str, str]) -> bool:
    name, value = (node.value if isinstance(node, ast.Constant) else node for node in pair)
    if not isinstance(name, str) or not isinstance(value, str):
        return False
    variables[name] = value
    return True


def _is_environ(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "environ"


def _touches(statement: ast.stmt) -> bool:
    """Whether it changes what imports find, or read. A function's body is run later, when it is called."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    nodes = list(ast.walk(statement))
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    used = sum(node.attr in ("environ", "putenv", "unsetenv", "chdir") for node in attributes)
    read = sum(node.attr in READING and _is_environ(node.value) for node in attributes)
    read += sum(
        isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and _is_environ(node.value) for node in nodes
    )
    of_sys = any(
        node.attr in SYS and isinstance(node.value, ast.Name) and node.value.id == "sys" for node in attributes
    )
    return used > read or of_sys
