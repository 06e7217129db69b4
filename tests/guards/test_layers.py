"""The folders' rules: imports go one way, pure packages stay pure, files stay small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "flota"
LAYERS = [
    {"__main__", "torch_launch"},
    {"spawning"},
    {"cli"},
    {"cluster", "engines", "view", "dashboard"},
    {"run"},
    {"hangs", "preemption", "stragglers", "standby", "control", "ledger", "chaos", "etcd", "snapshots"},
    {"failures"},
    {"store", "host", "logs", "frameworks", "devices", "binding"},
    {"supervise"},
    {"humanize"},
    {"platforms"},
    {"job"},
    {"worker"},
    {"errors", "values", "libc", "files", "free_memory", "__init__"},
]
IMPURE = {
    "os",
    "socket",
    "_socket",
    "time",
    "asyncio",
    "random",
    "subprocess",
    "select",
    "threading",
    "ctypes",
    "_ctypes",
}
MODULES = sorted(SOURCE.rglob("*.py"))


def package(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def is_pure(path: Path) -> bool:
    """A module says so itself, at the end of its docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return docstring.rstrip().endswith("Pure.")


def layer(name: str) -> int:
    (number,) = [number for number, names in enumerate(LAYERS) if name in names]
    return number


def walk_at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node
            yield from walk_at_run_time(node)


def imported(path: Path) -> set[str]:
    """What it imports when it runs, at once or later; what only a type checker reads is not."""
    names = set()
    for node in walk_at_run_time(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= (
                {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "flota" else {node.module}
            )
    return names


# flota/__init__.py names the public functions, and imports nothing until one is used: test_start_path.py.
@pytest.mark.parametrize(
    "path", [path for path in MODULES if path != SOURCE / "__init__.py"], ids=lambda path: str(path.relative_to(SOURCE))
)
def test_imports_go_one_way(path):
    own = package(path)
    if own == "__init__":
        return  # what it names is imported when it is asked for: see test_public_names.py
    for name in imported(path):
        if name.startswith("flota."):
            other = name.split(".")[1]
            other = "__init__" if other == "__version__" else other
            assert other == own or layer(other) > layer(own), f"{own} imports {name}"


def test_only_cli_asks_platforms():
    askers = {package(path) for path in MODULES if any(name.startswith("flota.platforms") for name in imported(path))}

    assert askers == {"cli", "platforms"}


def test_what_scripts_import_does_not_depend_on_other_packages():
    """A worker has an interpreter and packages of its own: it takes along as little of flota as can be."""
    used = {
        name for path in MODULES if package(path) == "worker" for name in imported(path) if name.startswith("flota")
    }
    users = {package(path) for path in MODULES if any(name.startswith("flota.worker") for name in imported(path))}

    assert {name.split(".")[1] for name in used} == {"errors", "free_memory", "values", "worker"}
    assert users == {"snapshots", "worker"}  # the layout of a snapshot is the same on both sides


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if is_pure(path)],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_pure_modules_touch_nothing(path):
    assert not {name.split(".")[0] for name in imported(path)} & IMPURE
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"print", "open", "input"}


def test_only_cli_and_what_runs_in_workers_read_argv_and_the_environment():
    for path in MODULES:
        if package(path) not in ("cli", "worker", "__main__", "torch_launch", "spawning", "standby"):
            text = path.read_text()
            assert "sys.argv" not in text and "sys.exit" not in text, path
            assert "os.environ" not in text or package(path) == "worker", path


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_hold_one_idea(path):
    assert len(path.read_text().splitlines()) <= 400
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 45, f"{node.name} does not fit on a screen"


def test_a_function_that_is_a_worker_loads_nothing_of_flota_but_for_its_error():
    child = SOURCE / "spawning" / "worker_process.py"
    at_once = {node.module for node in ast.parse(child.read_text()).body if isinstance(node, ast.ImportFrom)}

    assert not {name for name in at_once if name.startswith("flota")}
    assert {name for name in imported(child) if name.startswith("flota")} == {"flota.errors.worker"}


def test_every_module_says_what_it_is_for():
    for path in MODULES:
        if path.read_text().strip():
            assert ast.get_docstring(ast.parse(path.read_text())), path


def test_no_class_name_occurs_twice():
    """What a type checker reads in the place of a class is the same class."""
    names = [
        node.name
        for path in MODULES
        for node in walk_at_run_time(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]

    assert {name for name in names if names.count(name) > 1} == set()


def test_a_file_name_occurs_twice_only_for_the_same_part_of_two_features():
    names = [path.name for path in MODULES]

    assert {name for name in names if names.count(name) > 1} == {
        "__init__.py",
        "question.py",
        "report.py",
        "detector.py",
        "slurm.py",
        "client.py",
        "control_requests.py",
        "server.py",
    }


def test_json_from_the_network_is_decoded_in_one_place():
    network = [path for path in MODULES if package(path) in ("store", "cluster")]
    decoders = [path.name for path in network if "json.decode" in path.read_text() or "json.loads" in path.read_text()]

    assert decoders == ["decoding.py"]
