"""The page of a job on several hosts that share no directory."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing

import pytest

from tests.launching import WORKERS, environment, wait_until

TOKEN = {"FLOTA_TOKEN": "the-token-of-this-test"}
SCRIPT = WORKERS / "steps.py"
PATIENCE = 60.0  # seconds


class HostPage:
    """`flota dashboard` on the host of a node."""

    def __init__(self, node) -> None:
        self.host = node.host
        words = [sys.executable, "-m", "flota", "dashboard", "--json", "--job", str(node.process.pid)]
        self.process = self.host.popen(words, cwd=node.directory, env=environment(), stdout=subprocess.PIPE)
        link = json.loads(b"".join(iter(self.process.stdout.readline, b"}\n")) + b"}")["link"]
        self.port, self.token = re.match(r"http://127.0.0.1:(\d+)/#token=(\S+)", link).groups()

    def wait_for(self, condition) -> dict:
        """The first snapshot that meets it."""
        give_up = time.monotonic() + PATIENCE
        with closing(http.client.HTTPConnection("127.0.0.1", int(self.port), timeout=PATIENCE)) as connection:
            connection.sock = self.host.call(socket.create_connection, ("127.0.0.1", int(self.port)), 10)
            connection.request("GET", "/api/stream", headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            while line := answer.readline():
                snapshot = json.loads(line.removeprefix(b"data: ")) if line.startswith(b"data: ") else None
                if snapshot and condition(snapshot):
                    return snapshot
                assert time.monotonic() < give_up, snapshot
        raise AssertionError("the stream has ended")

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def page_of():
    opened: list[HostPage] = []

    def start(node) -> HostPage:
        opened.append(HostPage(node))
        return opened[-1]

    yield start
    for page in opened:
        page.end()


def test_it_counts_all_nodes_and_goes_on_when_its_own_is_killed(job, page_of):
    nodes = [job.node(host, "--nnodes 1:3 --elastic_timeout 2", SCRIPT, env=TOKEN) for host in (1, 2, 3)]
    for node in nodes:
        wait_until(lambda node=node: '"progress"' in events_of(node), f"records of {node.host.name}", timeout=PATIENCE)
    page = page_of(nodes[2])
    before = page.wait_for(lambda snapshot: snapshot["ledger"] and snapshot["ledger"]["goodput"])
    assert len(before["nodes"]) == 3 and before["ledger"]["unknown_ranks"] == 0
    assert all(node["store_seconds"] > 0 for node in before["nodes"])

    nodes[2].process.send_signal(signal.SIGKILL)

    after = page.wait_for(
        lambda snapshot: snapshot["job"]["round"] > before["job"]["round"] and snapshot["ranks"]["rank"]
    )
    assert after["live"] and len(after["nodes"]) == 2
    (job.stage / "finish").touch()
    assert job.codes()[:2] == [0, 0]


def events_of(node) -> str:
    return "".join(path.read_text() for path in (node.directory / "log").glob("events.*.jsonl"))
