"""A node that does not fit is told why and ends with 2; the others say so, and go on when the right one comes."""

from __future__ import annotations

import sys

import pytest

from tests.launching import wait_until
from tests.netns.jobs import HTTP, MEETS, Job

TOKEN, OTHER = "right-" + "a" * 20, "wrong-" + "b" * 20
STRANGERS = {
    "web": """
import http.server
http.server.test(http.server.SimpleHTTPRequestHandler, port=8090, bind="10.77.0.1")
""",
    "api": """
import http.server
class Api(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"hello": "world"}')
http.server.test(Api, port=8090, bind="10.77.0.1")
""",
    "raw": """
import socket
server, clients = socket.create_server(("10.77.0.1", 8090)), []
while clients.append(server.accept()[0]) is None:
    clients[-1].sendall(b"SSH-2.0-OpenSSH_9.2\\r\\n")
""",
}


MUTE = """
import socket
server, clients = socket.create_server(("10.77.0.1", 8090)), []
while clients.append(server.accept()[0]) is None:
    pass
"""


@pytest.fixture
def stranger(shared):
    """Starts somebody else's service where host 1 would serve. Returns its pid."""

    def start(program: str) -> int:
        process = shared.lab.host(1).popen([sys.executable, "-c", program], stdout=-3, stderr=-3)
        probe = [sys.executable, "-c", "import socket; socket.create_connection(('10.77.0.1', 8090), 5)"]
        wait_until(lambda: shared.lab.host(1).run(probe).returncode == 0, "the stranger")
        return process.pid

    return start


@pytest.mark.parametrize("kind", STRANGERS)
def test_another_service_is_not_mistaken_for_the_master(shared, tmp_path, stranger, kind):
    stranger(STRANGERS[kind])
    job = Job(shared.lab, tmp_path, shared.master(HTTP))
    nodes = job.start([1, 2], "--nnodes 2")

    assert job.codes() == [2, 2]
    for node in nodes:
        assert "10.77.0.1:8090 does not answer like a store: check the port" in node.err


def test_a_mute_service_on_the_master_s_port_is_named(shared, tmp_path, stranger):
    pid = stranger(MUTE)
    job = Job(shared.lab, tmp_path, shared.master(HTTP))
    node = job.node(1, "--nnodes 2")

    assert node.wait() == 2
    assert f"10.77.0.1:8090: the port is in use by pid {pid}, python" in node.err


@pytest.mark.parametrize("hosts", [[9], [2, 3]], ids=["on its machine", "on others"])
def test_an_etcd_without_its_scheme_is_recognised(shared, tmp_path, hosts):
    address = shared.etcd.addresses[0]
    job = Job(shared.lab, tmp_path, address)
    nodes = job.start(hosts, "--nnodes 2")

    assert job.codes(10) == [2] * len(nodes)
    for node in nodes:
        assert f"this is an etcd server: use --master etcd://{address}" in node.err


def test_nodes_that_do_not_fit_are_refused_and_the_right_one_is_taken(job):
    first = job.node(1, "--nnodes 2 --rank 0 --framework torch")
    job.wait_for_records(1)
    wrong = {
        2: ("--nnodes 3 --rank 1 --framework torch", "it expects 3 nodes, this job expects 2"),
        3: ("--nnodes 2 --rank 1 --framework jax", "it uses jax, this job uses torch"),
        4: ("--nnodes 2 --rank 0 --framework torch", "rank 0 is taken by host1"),
        5: ("--nnodes 1:2 --rank 1 --framework torch", "it expects 1:2 nodes, this job expects 2"),
    }
    refused = {host: job.node(host, words) for host, (words, _) in wrong.items()}

    for host, node in refused.items():
        assert node.wait() == 2
        assert f"the job refused this node: {wrong[host][1]}" in node.err
        first.wait_for(f"host{host} was refused: {wrong[host][1]}")
    job.node(6, "--nnodes 2 --rank 1 --framework torch")
    assert [(worker.host, worker.world_size) for worker in job.round(0, 2)] == [("host1", 2), ("host6", 2)]
    job.finish()
    assert job.codes() == [0, 2, 2, 2, 2, 0]
    assert job.rounds() == [0]


def test_a_node_of_another_job_is_turned_away_by_the_master(shared, tmp_path):
    job = Job(shared.lab, tmp_path, shared.master(HTTP))
    other = Job(shared.lab, tmp_path, shared.master(HTTP))
    first = job.node(1, "--nnodes 2")
    stray = other.node(2, "--nnodes 2")

    assert other.codes() == [2]
    why = f"its job id is `{other.name}`, this job's is `{job.name}`"
    assert f"the job refused this node: {why}" in stray.err
    first.wait_for(f"host2 was refused: {why}")
    job.node(3, "--nnodes 2")
    job.round(0, 2)
    job.finish()
    assert job.codes() == [0, 0]


def test_a_third_node_of_two_does_not_disturb_them(job):
    nodes = job.start([1, 2], "--nnodes 2 --max_restart 1")
    job.round(0, 2)

    third = job.node(3, "--nnodes 2 --max_restart 1")

    assert third.wait() == 2
    assert "the job refused this node: the job already has all 2 nodes" in third.err
    for node in nodes:
        node.wait_for("host3 was refused: the job already has all 2 nodes")
    job.finish()
    assert job.codes() == [0, 0, 2]
    assert job.rounds() == [0]


@pytest.mark.parametrize("words", ["--nnodes 2 --rank 2", "--nnodes 1:2 --rank 3"])
def test_a_rank_that_cannot_be_is_an_error_of_use(job, words):
    node = job.node(1, words)

    assert job.codes() == [2]
    assert "error: --rank" in node.err


# Tokens.


@pytest.mark.parametrize("given", [{"FLOTA_TOKEN": OTHER}, {}], ids=["wrong", "none"])
def test_a_node_without_the_token_and_the_owner_both_get_a_message(shared, tmp_path, given):
    job = Job(shared.lab, tmp_path, shared.master(HTTP))
    owner = job.node(1, "--nnodes 2", env={"FLOTA_TOKEN": TOKEN})
    intruder = job.node(2, "--nnodes 2", env=given)

    assert intruder.wait() == 2
    assert f"{job.master} does not accept this node's token: set the same FLOTA_TOKEN on all nodes" in intruder.err
    owner.wait_for("refused a request from 10.77.0.2: wrong FLOTA_TOKEN")
    job.node(3, "--nnodes 2", env={"FLOTA_TOKEN": TOKEN})
    assert [worker.host for worker in job.round(0, 2)] == ["host1", "host3"]
    job.finish()
    assert job.codes() == [0, 2, 0]


def test_a_master_without_a_token_says_that_it_is_open_to_all(shared, tmp_path):
    job = Job(shared.lab, tmp_path, shared.master(HTTP))
    nodes = job.start([1, 2], "--nnodes 2", MEETS)

    assert job.codes() == [0, 0]
    warning = f"the store at {job.master} accepts anyone: set FLOTA_TOKEN on all nodes"
    assert [node.err.count(warning) for node in nodes] == [1, 0]
