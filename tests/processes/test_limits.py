"""The limit of open files: a node that serves thousands raises it, its workers see the shell's own, and a node that has
no descriptors left goes on watching its workers."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flota.host.ports import hold_free, port_of, release
from tests.launching import Running, wait_until, worker_output

CODE = """
import os, resource
from flota.host.process_start import raise_open_files, restore_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 500))
raise_open_files(50)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
raise_open_files(400)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
raise_open_files(4000)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
restore_open_files()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_the_limit_is_raised_as_far_as_needed_and_allowed_and_restored():
    run = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True)

    assert run.stdout.split() == ["100", "400", "500", "100"]


def test_workers_of_a_serving_node_have_the_shells_limit(flota, tmp_path):
    script = tmp_path / "limit.py"
    script.write_text("import resource; print('limit', resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = hold_free(1, "127.0.0.1")
    place = f"127.0.0.1:{port_of(held[0])}"
    release(held)

    nodes = [
        flota.start(
            *("--nnodes", "2", "--master", place, "--nproc_per_node", "1", "--log_dir", f"log{rank}", script),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (700, hard)),
        )
        for rank in range(2)
    ]

    errors = [node.output()[1] for node in nodes]
    assert [node.wait() for node in nodes] == [0, 0], "".join(errors)
    logs = sorted(tmp_path.glob("log?/workerlog.?"))
    assert [worker_output(log) for log in logs] == ["limit 700\n"] * 2


@pytest.mark.parametrize("limit", [6, 10, 12, 16, 20, 24, 28])
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_limit_that_is_too_low_is_an_error_of_use(flota, limit, nodes):
    result = flota.run(
        *("--nproc_per_node", 2, "--nnodes", nodes, "--join_timeout", "1s", "prints.py"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),
    )

    assert "bug in flota" not in result.stderr
    assert "Traceback" not in result.stderr
    assert (result.returncode == 2 and "ulimit -n 65536" in result.stderr) or (nodes == 2 and result.returncode == 75)


@pytest.fixture
def script(flota):
    """Each worker creates a file when it gets SIGUSR1, waits for the file `go`, and exits with the code in it."""
    path = flota.directory / "waits.py"
    path.write_text(
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: open('heard' + os.environ['RANK'], 'w').close())\n"
        "open('up' + os.environ['RANK'], 'w')\n"
        "while not os.path.exists('go'): time.sleep(0.05)\n"
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"  # some may still be on their way
        "sys.exit(int(open('go').read()))\n"
    )
    return path


def wait_for_watch(directory: Path, *nodes: Running) -> None:
    """Wait until nodes watch both workers. Only then they pass on a signal; they opened files until then."""

    def heard() -> bool:
        for node in nodes:
            os.kill(node.pid, signal.SIGUSR1)
        return all((directory / f"heard{rank}").exists() for rank in range(2))

    nodes[0].wait_for("up0", "up1")
    wait_until(heard, "all nodes to watch their workers")


def take_all_descriptors(node: Running, logs: Path) -> None:
    """Lower the limit of a node, as if it had opened all that it may, and wait until it has noticed."""
    _, hard = resource.prlimit(node.pid, resource.RLIMIT_NOFILE)
    limit = max(int(fd) for fd in os.listdir(f"/proc/{node.pid}/fd")) + 1
    resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (limit, hard))

    def has_noticed() -> bool:
        os.kill(node.pid, signal.SIGUSR1)  # wakes it
        return any("no file descriptors left" in path.read_text() for path in logs.glob("default.*.log"))

    wait_until(has_noticed, "the node to notice")


def let_workers_exit(directory: Path, code: int) -> None:
    (directory / "new").write_text(str(code))
    (directory / "new").rename(directory / "go")


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("words", [(), ("--console", "all"), ("--max_restart", 1)], ids=["plain", "all", "restart"])
def test_a_node_without_descriptors_says_so_and_goes_on_watching(flota, script, code, words):
    node = flota.start("--nproc_per_node", 2, "--framework", "torch", *words, script)
    wait_for_watch(flota.directory, node)
    take_all_descriptors(node, flota.directory / "log")

    let_workers_exit(flota.directory, code)

    _, err = node.output()
    assert node.wait() == code, err
    assert err.count("this process has no file descriptors left; the workers keep running") == 1
    assert "Traceback" not in err


def test_a_master_without_descriptors_goes_on_serving(flota, script):
    held = hold_free(1, "127.0.0.1")
    place = f"127.0.0.1:{port_of(held[0])}"
    release(held)
    words = ["--nnodes", 2, "--master", place, "--framework", "torch"]
    nodes = [flota.start(*words, "--log_dir", f"log{number}", script) for number in range(2)]
    wait_for_watch(flota.directory, *nodes)
    for number, node in enumerate(nodes):
        take_all_descriptors(node, flota.directory / f"log{number}")

    let_workers_exit(flota.directory, 0)

    errors = [node.output()[1] for node in nodes]
    assert [node.wait() for node in nodes] == [0, 0], "".join(errors)
