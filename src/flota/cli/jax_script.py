"""Reads from a script's text whether it leaves it to JAX to find the other processes. Pure."""

from __future__ import annotations

import ast
import warnings

CALLED = "jax.distributed.initialize"
GIVEN = {"num_processes", "process_id", None}  # what JAX would have to find; None: `**`, which may contain them
# These load an MPI library, or decide by Open MPI's variables how the script was started.
READ_OPEN_MPI = {"mpi4py", "mpi4jax", "petsc4py", "horovod", "accelerate", "deepspeed"}
READ_OPEN_MPI |= {"lightning", "pytorch_lightning"}
OPEN_MPI = b"OMPI_"  # the script reads the variables itself


def leaves_ranks_to_jax(text: bytes) -> bool:
    """Whether a script calls `jax.distributed.initialize` without saying how many processes there are."""
    if OPEN_MPI in text:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the script's own, as about `"\\d"`; its workers show them
            nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # not Python, or not of this version
    imported = _imported_names(nodes)
    if any(name.partition(".")[0] in READ_OPEN_MPI for _, name in imported):
        return False
    calls = (node for node in nodes if isinstance(node, ast.Call) and not node.args)
    return any(
        _is_imported(call.func, imported) and not GIVEN & {keyword.arg for keyword in call.keywords} for call in calls
    )


def _imported_names(nodes: list[ast.AST]) -> set[tuple[str, str]]:
    """What import statements at any level of the code define: a name of the script, and the full name behind it."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                package = alias.name.partition(".")[0]
                names.add((alias.asname, alias.name) if alias.asname else (package, package))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {(alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names}
    return names


def _is_imported(function: ast.AST, imported: set[tuple[str, str]]) -> bool:
    """Whether the function of a call is JAX's: an imported name, and attributes of it."""
    attributes = ""
    while isinstance(function, ast.Attribute):
        attributes = f".{function.attr}{attributes}"
        function = function.value
    return isinstance(function, ast.Name) and any(
        name == function.id and full + attributes == CALLED for name, full in imported
    )
