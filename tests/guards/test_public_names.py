"""What `import flota` gives a script, and what it costs it. Scripts have interpreters of their own, from Python 3.8 on."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import flota
from flota.host.channel import Channel
from flota.host.heartbeat_page import POLLS, WANTS_SIGNAL
from tests.launching import environment

from .test_start_path import SLOW

SOURCE = Path(flota.__file__).parent
# What an interpreter of the user's begins with: what scripts import, a function that is a worker, what `site` loads.
BEGINNINGS = [
    *SOURCE.glob("worker/*.py"),
    *SOURCE.glob("errors/*.py"),
    SOURCE / "spawning/__init__.py",
    SOURCE / "spawning/worker_process.py",
    SOURCE / "standby/site/sitecustomize.py",
    SOURCE / "standby/parked_main.py",
    SOURCE / "host/channel.py",
]
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
TRY = """
import flota, flota.spawning.worker_process, flota.standby.parked_main, flota.host.channel
assert flota.env() == flota.Env(device=flota.env().device)
@flota.record
def main(): return flota.env()._replace(rank=3)
assert main().rank == 3 and "rank=3" in repr(main())
flota.record()
flota.shutdown()
try:
    flota.init_parallel_env()
except flota.FlotaError as error:
    assert "hint: import one" in str(error)
else:
    raise SystemExit("no error")
flota.heartbeat(8, total=100, loss=0.5)
with flota.phase("evaluate"), flota.phase("checkpoint"):
    pass
assert flota.should_stop() is False
flota.on_stop(lambda: print("called"))
import os
if os.fork() == 0:
    flota.heartbeat(99)
    os._exit(0)
assert os.wait()[1] == 0
flota.heartbeat(9, 100)
assert flota.should_stop() is True
flota.heartbeat(10)
raise SystemExit("it goes on")
"""


def in_workers():
    """These, and whatever of flota they import, at any time."""
    found = set()
    left = list(BEGINNINGS)
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += imported_by(path)
    return sorted(found)


def imported_by(path):
    """The files of the modules that it imports, and of the packages around them."""
    names = set()
    for node in at_run_time(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    for name in names:
        parts = name.split(".")
        if parts[0] == "flota":
            places = [SOURCE.joinpath(*parts[1:length]) for length in range(1, len(parts) + 1)]
            files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
            yield from filter(Path.is_file, files)


def at_run_time(tree):
    """All of it, but for what type checkers alone read."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from at_run_time(node)


def run(python, code, **variables):
    return subprocess.run(
        [python, "-c", f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r})\n{code}"],
        env=environment({"PYTHONWARNINGS": "error", **variables}),
        capture_output=True,
        text=True,
        check=False,
    )


def other_pythons():
    """Every other one on this machine that a worker may have."""
    named = [shutil.which(f"python3.{minor}") for minor in range(8, 16)]
    found = [*filter(None, named), *map(str, sorted(PYENV.glob("3.*/bin/python")))]
    versions = {}
    for python in found:
        told = subprocess.run(
            [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=False
        ).stdout.split()
        if told and int(told[1]) >= 8 and tuple(map(int, told)) != sys.version_info[:2]:
            versions.setdefault(".".join(told), python)
    return versions


@pytest.mark.parametrize("name", flota.PUBLIC)
def test_every_public_name_is_there(name):
    assert getattr(flota, name).__name__ == name
    assert name in dir(flota)


def test_type_checkers_know_the_public_names():
    [block] = [node for node in ast.parse((SOURCE / "__init__.py").read_text()).body if isinstance(node, ast.If)]

    told = {alias.asname: node.module for node in block.body for alias in node.names}

    assert told == flota.PUBLIC


def test_no_module_has_a_public_name():
    modules = {path.stem for path in SOURCE.iterdir()}

    assert not modules & set(flota.PUBLIC)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'flota' has no attribute 'no_such_thing'"):
        _ = flota.no_such_thing


def test_importing_flota_imports_nothing_else():
    ended = run(sys.executable, "import os; before = set(sys.modules)\nimport flota; print(*set(sys.modules) - before)")

    assert ended.stdout.split() == ["flota"], ended.stderr


def test_asking_who_one_is_imports_nothing_slow():
    ended = run(
        sys.executable,
        "import os; before = set(sys.modules)\nimport flota; flota.env()\nprint(*set(sys.modules) - before)",
    )

    loaded = set(ended.stdout.split())
    assert loaded, ended.stderr
    assert not loaded & SLOW
    assert len(loaded) <= 10


def test_all_that_workers_load_is_known():
    """A few of them, from either end of the ways there."""
    known = {str(path.relative_to(SOURCE)) for path in in_workers()}

    assert {
        "__init__.py",
        "values.py",
        "libc.py",
        "errors/worker.py",
        "worker/init_torch.py",
        "standby/parked_main.py",
    } <= known
    assert {f"host/{name}.py" for name in ("channel", "shepherd", "kill_tree", "process_start", "signals")} <= known
    assert not {"run/node_watch.py", "spawning/supervisor_client.py", "job/spec.py"} & known


@pytest.mark.parametrize("path", in_workers(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_runs_in_workers_is_written_for_python_3_8(path):
    ast.parse(path.read_text(), feature_version=(3, 8))


@pytest.mark.parametrize(
    "version", other_pythons() or [pytest.param("none", marks=pytest.mark.skip("no other Python"))]
)
def test_workers_of_other_pythons_can_use_it(version):
    channel = Channel(1)
    channel.request_stop(0, 9)

    ended = run(other_pythons()[version], TRY, FLOTA_CHANNEL=channel.page_path(0))

    assert (ended.returncode, ended.stdout) == (0, "called\n"), ended.stderr
    assert (channel.read(0).step, channel.read(0).flags) == (10, POLLS | WANTS_SIGNAL)
    channel.close()
