"""The beginning of a script, as far as its imports can be done before it runs.

Runs in workers' interpreters: Python 3.8.
"""

from __future__ import annotations

import ast
import os

from flota.standby.side_effects import IMPORTS, Effects, is_environ, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Head:
    """What it imports, always or maybe, in order, each with the variables that it sets before that. Not what its
    functions import when they are called.

    What comes after something is done to what imports depend on is not taken: nobody can know the outcome.
    """

    def __init__(self, path: str = "", place: str = "") -> None:
        """`place`: where the user's own modules are."""
        self.always: list[tuple[str, dict[str, str]]] = []
        self.maybe: list[str] = []
        body = parse(path)
        self._effects = Effects(path, body, place)
        self._doubtful: list[ast.stmt] = []  # what may do something to imports: looked at when it matters
        self._touched = False
        variables: dict[str, str] = {}
        for statement in _one_by_one(body):
            if isinstance(statement, IMPORTS) and not self._effects.own_files(statement):
                if self.is_opaque:
                    break
                self.always += [(name, variables) for name in _names(statement)]
                variables = {}
            elif not _sets_variable(statement, variables):
                self._doubtful.append(statement)
                inner = [] if isinstance(statement, IMPORTS) else _inner_names(statement)
                self.maybe += [] if inner and self.is_opaque else inner

    @property
    def is_opaque(self) -> bool:
        """Whether something was done to what imports depend on."""
        while self._doubtful and not self._touched:
            self._touched = self._effects.touches(self._doubtful.pop(0))
        return self._touched


def _one_by_one(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """`import a, b` is `import a`, then `import b`."""
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (ast.Import([alias]) for alias in statement.names)
        else:
            yield statement


def _names(statement: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    return [statement.module] if statement.module and not statement.level else []


def _inner_names(statement: ast.AST) -> list[str]:
    if isinstance(statement, IMPORTS):
        return _names(statement)
    if isinstance(statement, (ast.If, ast.Try, ast.With)):
        return [name for child in ast.iter_child_nodes(statement) for name in _inner_names(child)]
    return []


def _sets_variable(statement: ast.stmt, variables: dict[str, str]) -> bool:
    """`os.environ["A"] = "1"` or `os.environ.setdefault("A", "1")`."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Subscript) and is_environ(target.value):
            # Python 3.8 has the index in a box of its own.
            return _note([getattr(target.slice, "value", target.slice), statement.value], variables)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if isinstance(call.func, ast.Attribute) and call.func.attr == "setdefault" and is_environ(call.func.value):
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
