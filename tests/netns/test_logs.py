"""flota logs on four hosts, one of which has a wrong clock."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time

from tests.launching import WORKERS, environment, wait_until

TOKEN = {"FLOTA_TOKEN": "the-token-of-this-test"}
SCRIPT = WORKERS / "speaks_on_cue.py"
TURNS = [3, 1, 2, 0, 1]
WRONG = 8.0  # seconds; directories whose clocks differ by more may be those of different jobs


def start(job):
    nodes = [
        job.node(host, "--nnodes 4 --nproc_per_node 2", SCRIPT, env=TOKEN, clock_offset=WRONG if host == 2 else 0.0)
        for host in (1, 2, 3, 4)
    ]
    for node in nodes:
        wait_until(lambda node=node: logs_of(node), f"workers on {node.host.name}")
        wait_until(lambda node=node: all("attempt 0" in log.read_text() for log in logs_of(node)), "their first line")
    return nodes


def logs_of(node):
    return sorted((node.directory / "log").glob("workerlog.?"))


def say(node, *lines):
    """Let the ranks of a node speak."""
    with open(node.directory / "say", "a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def is_noted(node, line):
    sizes = {}
    for path in (node.directory / "log").glob("times.*.jsonl"):
        for noted in path.read_text().splitlines():
            sizes |= {name: size for name, (_, size, _) in json.loads(noted).get("sizes", {}).items()}
    return all(f"{line}\n" in log.read_text() and sizes.get(log.name) == log.stat().st_size for log in logs_of(node))


def flota(node, *words):
    """Run a command on the host of a node, in its directory."""
    command = [sys.executable, "-m", "flota", *map(str, words)]
    process = node.host.popen(
        command, cwd=node.directory, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = process.communicate(timeout=60)
    return out.decode().splitlines(), err.decode(), process.returncode


def turns(lines):
    return [line.rpartition(" ")[2] for line in lines if "turn" in line]


def test_all_ranks_are_merged_by_time_from_any_host_and_after_the_end(job, tmp_path):
    nodes = start(job)
    for turn, number in enumerate(TURNS):
        say(nodes[number], f"turn {turn}")
        wait_until(lambda node=nodes[number], line=f"turn {turn}": is_noted(node, line), "it to be noted", timeout=30)
        time.sleep(3)  # flota orders by seconds
    expected = [str(turn) for turn in range(len(TURNS)) for _ in range(2)]

    for node in nodes:
        lines, err, code = flota(node, "logs", "--all", "--job", node.process.pid)
        assert (turns(lines), err, code) == (expected, "", 0)
    assert len({line.partition(":")[0] for line in lines}) == 4

    for node in nodes:
        say(node, "end")
    assert job.codes() == [0] * 4
    for node in nodes:
        shutil.copytree(node.directory / "log", tmp_path / "all" / node.host.name)
    lines, err, code = flota(nodes[3], "logs", "--all", "--log_dir", tmp_path / "all")
    assert (turns(lines), err, code) == (expected, "", 0)
