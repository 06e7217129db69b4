"""A node that serves thousands may open more files than its shell allows; its workers see the shell's own limit."""

from __future__ import annotations

import resource
import subprocess
import sys

from flota.host.ports import hold_free, port_of, release
from tests.launching import worker_output

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

    assert [node.output() and node.wait() for node in nodes] == [0, 0]
    logs = sorted(tmp_path.glob("log?/workerlog.?"))
    assert [worker_output(log) for log in logs] == ["limit 700\n"] * 2
