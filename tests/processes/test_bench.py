"""The benches speak flota's own protocol: they must keep up with it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.launching import environment
from tests.store.servers import free_ports

MANY_NODES = Path(__file__).parents[2] / "bench/nodes/many_nodes.py"


def test_the_simulated_nodes_of_a_bench_join_a_real_master(flota):
    (port,) = free_ports(1)
    flota.start("--nnodes", 4, "--master", f"127.0.0.1:{port}", "--no-python", "sleep", 60)
    command = [sys.executable, MANY_NODES, str(port), "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as nodes:
        assert nodes.stdout is not None
        line = nodes.stdout.readline()
        nodes.kill()

    times = json.loads(line)
    assert times["began"] < times["ended"]
