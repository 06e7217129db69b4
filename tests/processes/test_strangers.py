"""Clients without the job's token cannot harm the job, whatever they send and however many they are."""

from __future__ import annotations

import resource
import socket
import threading
import time

import pytest

from flota.host.ports import hold_free, port_of, release
from tests.launching import wait_until

TOKEN = {"FLOTA_TOKEN": "secret-0123456789abcdef"}
SECONDS = 4.0
TINY_PARTS = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 10_000
PIPELINED = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n" * 2000


@pytest.fixture
def port():
    held = hold_free(1, "127.0.0.1")
    number = int(port_of(held[0]))
    release(held)
    return number


@pytest.fixture
def two_nodes(flota, port):
    """A function that starts a job whose workers end when the file `go` exists."""
    work = flota.directory / "work.py"
    work.write_text(
        "import os, time\nopen('up' + os.environ['RANK'], 'w')\nwhile not os.path.exists('go'): time.sleep(0.05)\n"
    )

    def start(limit: int = 0, **options):
        allow = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))} if limit else {}
        words = ["--nnodes", 2, "--master", f"127.0.0.1:{port}", "--framework", "torch"]
        nodes = [flota.start(*words, "--log_dir", f"log{n}", work, env=TOKEN, **allow) for n in range(2)]
        nodes[0].wait_for("up0", "up1")
        return nodes

    return start


@pytest.mark.parametrize("data", [TINY_PARTS, PIPELINED], ids=["tiny_parts", "pipelined"])
def test_a_job_with_a_token_ends_well_under_a_flood(flota, port, two_nodes, data):
    nodes = two_nodes()
    end = time.monotonic() + SECONDS
    flood = [threading.Thread(target=send_until, args=(end, port, data)) for _ in range(30)]
    for thread in flood:
        thread.start()
    wait_until(lambda: time.monotonic() > end - 1, "most of the flood")

    (flota.directory / "go").touch()

    said = [node.output() for node in nodes]
    assert [node.wait() for node in nodes] == [0, 0], said
    assert not any("no answer" in err for _, err in said)
    for thread in flood:
        thread.join()


def send_until(end: float, port: int, data: bytes) -> None:
    while time.monotonic() < end:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as client:
                while time.monotonic() < end:
                    client.send(data)
        except OSError:
            time.sleep(0.01)


@pytest.mark.parametrize("limit", [96, 256])
def test_idle_connections_of_strangers_leave_a_node_the_descriptors_that_it_needs(flota, port, two_nodes, limit):
    nodes = two_nodes(limit)
    idle = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(2 * limit)]

    (flota.directory / "go").touch()

    assert [node.output() and node.wait() for node in nodes] == [0, 0]
    for client in idle:
        client.close()


@pytest.mark.parametrize(("env", "count"), [({}, 1), (TOKEN, 0)], ids=["open", "token"])
def test_a_store_on_loopback_that_is_open_to_other_users_gets_a_warning(flota, port, env, count):
    words = ["--nnodes", 2, "--master", f"127.0.0.1:{port}"]
    nodes = [flota.start(*words, "--log_dir", f"log{number}", "prints.py", env=env) for number in range(2)]

    errors = "".join(node.output()[1] for node in nodes)

    assert [node.wait() for node in nodes] == [0, 0]
    warning = f"the store at 127.0.0.1:{port} accepts every user of this machine: set FLOTA_TOKEN on all nodes"
    assert errors.count(warning) == count
