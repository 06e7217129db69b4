"""flota in a real Jupyter kernel: functions of cells run, their output appears in the cell."""

from __future__ import annotations

import os
import signal
import threading
import time

import nbclient
import nbformat
import pytest

from tests.launching import assert_nobody_left, environment

# What the kernel's own libraries have to say about event loops is not about flota.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

IMPORTS = "import os, sys, time\nimport flota"
DEFINITIONS = """
class Thing:
    def __init__(self, number):
        self.number = number

def train(thing, fails=False):
    rank = int(os.environ["FLOTA_RANK"])
    print("rank", rank, "of", os.environ["WORLD_SIZE"])
    print("warning of", rank, file=sys.stderr)
    if fails and rank == 1:
        raise ValueError("no data")
    return Thing(thing.number + rank)
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs cells one after the other; their outputs."""
    for name in set(os.environ) - set(environment()):
        monkeypatch.delenv(name)
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))  # this very environment's kernel, and nobody's settings

    def cells(*texts, **options):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in texts])
        client = nbclient.NotebookClient(
            notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}, **options
        )
        client.execute()
        return [cell.outputs for cell in notebook.cells]

    yield cells
    assert_nobody_left()


def written(outputs, stream):
    return "".join(output["text"] for output in outputs if output.get("name") == stream)


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_cells_function_runs_and_its_output_appears_there(run, method):
    call = f"workers = flota.spawn(train, args=(Thing(10),), nprocs=2, start_method={method!r})"

    *_, called, after = run(
        IMPORTS,
        DEFINITIONS,
        call,
        "print([thing.number for thing in workers.results()], type(workers.results()[0]) is Thing)",
    )

    assert sorted(written(called, "stdout").splitlines()) == ["rank 0 of 2", "rank 1 of 2"]
    assert sorted(written(called, "stderr").splitlines()) == ["warning of 0", "warning of 1"]
    assert written(after, "stdout") == "[10, 11] True\n"


def test_a_failure_is_shown_with_the_workers_own_traceback(run):
    *_, called = run(IMPORTS, DEFINITIONS, "flota.spawn(train, args=(Thing(1), True), nprocs=2)", allow_errors=True)

    [error] = [output for output in called if output["output_type"] == "error"]
    assert error["ename"] == "WorkerFailed"
    assert "rank 1 failed first: exit code 1" in error["evalue"]
    assert "RemoteTraceback" in "".join(error["traceback"])


def test_without_cloudpickle_the_error_says_what_to_do(run):
    hidden = "sys.modules['cloudpickle'] = None"

    *_, called = run(IMPORTS, DEFINITIONS, hidden, "flota.spawn(train, args=(Thing(1),), nprocs=2)", allow_errors=True)

    [error] = [output for output in called if output["output_type"] == "error"]
    assert error["ename"] == "DefinedInteractively"
    assert "`train` is defined in a notebook or a shell" in error["evalue"]
    assert "hint: run `pip install cloudpickle`" in "".join(error["traceback"])


def test_a_program_of_a_cell_is_launched_and_shown(run, tmp_path):
    (tmp_path / "train.py").write_text("import os; print('hello from', os.environ['RANK'])")

    _, called = run(IMPORTS, "print(flota.launch('train.py', nproc_per_node=2).exit_code)")

    assert sorted(written(called, "stdout").splitlines()) == ["0", "hello from 0"]


def test_interrupting_the_kernel_ends_the_workers(run, tmp_path):
    waiting = "def waits():\n    open(f\"ready.{os.environ['FLOTA_RANK']}\", 'w').close()\n    time.sleep(100)"
    noted = "open('kernel', 'w').write(str(os.getpid()))"

    def interrupt():
        give_up = time.monotonic() + 40
        while not all((tmp_path / f"ready.{rank}").exists() for rank in (0, 1)) and time.monotonic() < give_up:
            time.sleep(0.01)
        os.kill(int((tmp_path / "kernel").read_text()), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    *_, called, after = run(
        f"{IMPORTS}\n{noted}", waiting, "flota.spawn(waits, nprocs=2)", "print('alive')", allow_errors=True
    )
    thread.join()

    assert [output["ename"] for output in called if output["output_type"] == "error"] == ["KeyboardInterrupt"]
    assert written(after, "stdout") == "alive\n"
