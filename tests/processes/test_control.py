"""Questions to a running job, and commands that act on it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys

import pytest

from flota.control.client import NO_ACCESS, Access, JobClient, NodeClient, local_nodes
from flota.control.running_logs import LogsOfNode
from flota.control.status import Status
from flota.errors import CannotAsk
from flota.host.ports import hold_free, port_of, release
from flota.host.unix_socket import address_of
from flota.logs.choose_ranks import Choice
from tests.launching import COMMAND, DEADLINE, environment, wait_until

TOKEN = "a-token-of-this-test"


class Asker:
    """Clients that are closed when the test ends."""

    def __init__(self) -> None:
        self.opened = []

    def node(self, where: int | str, access: Access = NO_ACCESS) -> NodeClient:
        return self.keep(NodeClient(where, access))

    def job(self, pid: int) -> JobClient:
        return self.keep(JobClient(self.node(pid)))

    def status(self, running) -> Status:
        return self.node(running.pid).status()

    def plain(self, pid: int) -> http.client.HTTPConnection:
        client = self.keep(http.client.HTTPConnection("localhost", timeout=DEADLINE))
        client.sock = socket.socket(socket.AF_UNIX)
        client.sock.settimeout(DEADLINE)
        wait_until(lambda: client.sock.connect_ex(address_of(pid)) == 0, "room in the node's queue")
        return client

    def keep(self, client):
        self.opened.append(client)
        return client


@pytest.fixture
def ask():
    asker = Asker()
    yield asker
    for client in asker.opened:
        client.close()


@pytest.fixture
def job(flota):
    running = flota.start("--nproc_per_node", 2, "--max_restart", 1, "reports.py", env={"STAGE": str(flota.directory)})
    running.wait_for("step.0", "step.1")
    wait_until(lambda: running.pid in local_nodes(), "its socket")
    return running


@pytest.fixture
def nodes(flota):
    """Two nodes of a job on this machine, with a token."""
    return start_nodes(flota, "--nnodes", 2)


def start_nodes(flota, *words, count=2, token=TOKEN):
    held = hold_free(1, "127.0.0.1")
    place = f"127.0.0.1:{port_of(held[0])}"
    release(held)
    words = (*words, "--master", place, "--framework", "torch", "reports.py")
    env = {"STAGE": str(flota.directory), "FLOTA_TOKEN": token}
    found = [flota.start("--log_dir", f"log{number}", *words, env=env) for number in range(count)]
    found[0].wait_for("step.0", "step.1")
    wait_until(lambda: {node.pid for node in found} <= set(local_nodes()), "their sockets")
    return found


def command(flota, *words, env=None):
    return subprocess.run(
        [COMMAND, *map(str, words)],
        cwd=flota.directory,
        env=environment(env),
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )


def finish(flota, *running) -> list[int]:
    (flota.directory / "finish").touch()
    return [one.output() and one.wait() for one in running]


def test_a_node_describes_its_job_and_its_ranks(flota, job, ask):
    status = ask.status(job)

    assert (status.job.job_id, status.job.state, status.job.world_size) == ("default", "running", 2)
    assert (status.job.log_dir, status.job.directory) == (f"{flota.directory}/log", str(flota.directory))
    assert (status.node.pid, status.node.host, len(status.job.nodes)) == (job.pid, os.uname().nodename, 1)
    first = status.node.ranks[0]
    assert (first.rank, first.state, first.total, first.numbers["loss"]) == (0, "running", 1000, 1 / first.step)
    assert first.logs == (f"{flota.directory}/log/workerlog.0",)
    assert first.memory > 1 << 20 and first.cpu >= 0 and first.heartbeat >= 0
    assert os.path.exists(f"/proc/{first.pid}")
    assert finish(flota, job) == [0]


def test_logs_and_events_are_read_from_an_offset(flota, job, ask):
    log = (flota.directory / "log/workerlog.1").read_bytes()
    client = ask.node(job.pid)

    assert client.log_from("trainer", 1, 0, 0, len(log)) == (0, log)
    assert client.log_from("trainer", 1, 0, 3, 5) == (3, log[3:8])
    begins, end = client.log_from("trainer", 1, 0, -5, 5)
    assert begins + 5 >= len(log) and len(end) == 5
    assert client.log_from("trainer", 1, 0, 1 << 40, 5)[1] == b""
    begins, events = client.events_from(0, 1 << 20)
    assert (begins, json.loads(events.splitlines()[0])["event"]) == (0, "job_started")
    assert finish(flota, job) == [0]


def test_those_who_follow_a_log_see_its_end(flota, nodes, ask):
    endpoint = ask.status(nodes[0]).job.nodes[0].endpoint
    node, received, ended = LogsOfNode(ask.node(endpoint, Access(TOKEN)), "here"), b"", False
    while not ended:
        polled = node.poll(Choice((0,), "trainer"))
        received += b"".join(data for _, data, _ in polled.news)
        ended = polled.has_ended and not polled.news
        if received.count(b"\n") > 10:  # the worker goes on meanwhile
            (flota.directory / "finish").touch()
    node.client.close()

    assert [one.output() and one.wait() for one in nodes] == [0, 0]
    (log,) = flota.directory.glob("log?/workerlog.0")
    assert received.count(b"rank 0 step ") >= 10 and received == log.read_bytes()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/log?rank=7", 404),
        ("/v1/log?rank=0&file=1", 404),
        ("/v1/log?rank=0&offset=1e3", 400),
        ("/v1/log?rank=0&offset=-", 400),
        ("/v1/log?rank=0&offset=--5", 400),
        ("/v1/log?rank=0&limit=-1", 400),
        ("/v1/log?rank=0&inode=x", 400),
        ("/v1/log?rank=0&role=../../etc", 404),
        ("/v1/ask?kind=nonsense", 409),
        ("/v1/nonsense", 404),
        ("/etc/passwd", 404),
        ("//[", 400),
    ],
)
def test_what_a_node_does_not_know_is_refused(job, path, status, ask):
    client = ask.plain(job.pid)
    client.request("GET", path)
    answer = client.getresponse()

    assert answer.status == status
    assert json.loads(answer.read())["error"]


@pytest.mark.skipif(os.getuid() != 0, reason="another user is needed")
def test_another_user_gets_no_answer(job):
    code = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(bytes.fromhex(sys.argv[1])); print(s.recv(1))"
    )
    words = ["python3", "-c", code, address_of(job.pid).hex()]

    stranger = subprocess.run(words, user=65534, capture_output=True, text=True, timeout=DEADLINE, check=False)

    assert "b''" in stranger.stdout or "ConnectionReset" in stranger.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="another user is needed")
def test_a_stranger_cannot_pose_as_a_job(ask):
    code = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); name = bytes.fromhex(sys.argv[1])"
        "; s.bind(name.replace(b'PID', b'%d' % os.getpid())); s.listen(); print(flush=True); s.accept()[0].recv(1)"
    )
    name = address_of(0)[:-1] + b"PID"
    words = ["python3", "-c", code, name.hex()]
    with subprocess.Popen(words, user=65534, stdout=subprocess.PIPE) as stranger:
        stranger.stdout.readline()

        with pytest.raises(CannotAsk, match="another user"):
            ask.node(stranger.pid).status()
        stranger.kill()


def test_a_job_survives_a_client_if_the_server_cannot_be_imported(flota, ask):
    (flota.directory / "msgspec.py").write_text("raise RuntimeError('not the package')")
    running = flota.start("sleeps.py", command=[sys.executable, "-m", "flota"])
    running.wait_for("ready.0.0")

    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(DEADLINE)
        wait_until(lambda: client.connect_ex(address_of(running.pid)) == 0, "the node's socket")
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""  # the node has closed its socket
    os.kill(running.pid, signal.SIGTERM)

    _, err = running.output()
    assert running.wait() == 143
    assert "this node does not answer `flota ps` and other commands: RuntimeError: not the package" in err


def test_ps_lists_running_jobs_and_with_a_finished_ones(flota, job):
    listed = command(flota, "ps")
    assert job.pid in local_nodes()
    (row,) = [line for line in listed.stdout.splitlines() if str(job.pid) in line.split()]
    assert row.split()[:6] == ["default", str(job.pid), "running", "1", "2", "0"]
    (facts,) = [one for one in json.loads(command(flota, "ps", "--json").stdout) if one["pid"] == job.pid]
    assert (facts["ranks"], facts["total"], facts["log_dir"]) == (2, 1000, f"{flota.directory}/log")

    assert finish(flota, job) == [0]

    assert str(job.pid) not in command(flota, "ps").stdout
    (finished,) = [one for one in json.loads(command(flota, "ps", "-a", "--json").stdout) if not one["pid"]]
    assert (finished["state"], finished["exit_code"], finished["ranks"]) == ("succeeded", 0, 2)
    assert "succeeded" in command(flota, "ps", "-a").stdout


def test_stop_ends_the_job(flota, job):
    ended = command(flota, "stop")

    assert (ended.returncode, ended.stdout) == (0, "flota: stopping the job\n")
    _, err = job.output()
    assert job.wait() == 128 + signal.SIGTERM
    assert "flota: flota stop received; stopping 2 workers" in err and "stopped by flota stop after" in err


def test_restart_begins_a_round_that_is_not_counted(flota, job, ask):
    ended = command(flota, "restart", "--json")

    assert json.loads(ended.stdout) == {"message": "restarting all workers"}
    wait_until(lambda: ask.status(job).job.round == 1, "the next round")
    status = ask.status(job)
    assert (status.job.attempt, [one.reason for one in status.job.restarts]) == (0, ["restart requested"])
    wait_until(lambda: ask.status(job).node.ranks[0].step > 0, "the workers")
    (flota.directory / "fail.1").touch()  # which is counted, and the only one allowed
    wait_until(lambda: ask.status(job).job.round == 2, "the round after the failure")
    assert ask.status(job).job.attempt == 1
    _, err = (flota.directory / "finish").touch() or job.output()
    assert job.wait() == 0
    assert "flota restart received; restarting all workers" in err
    assert "1 restart: rank 1 exit code 3 at" in err and "restart requested at" in err


def test_why_tells_the_restarts_of_a_running_job(flota, job, ask):
    assert "running on " in command(flota, "why", "--job", job.pid).stdout
    (flota.directory / "fail.1").touch()
    wait_until(lambda: ask.status(job).job.round == 1, "the round after the failure")

    told = command(flota, "why", "--job", job.pid)
    (as_json,) = json.loads(command(flota, "why", "--job", job.pid, "--json").stdout)

    assert [command(flota, "why", *words).stdout.split("to now")[0] for words in ((), ("log",))] == [
        told.stdout.split("to now")[0]
    ] * 2
    job.process.send_signal(signal.SIGSTOP)  # as if it could not be asked
    assert f"job default is still running on {os.uname().nodename}, after 1 restart\n" in command(flota, "why").stdout
    job.process.send_signal(signal.SIGCONT)
    assert "round 0 " in told.stdout and "ended: rank 1 exit code 3" in told.stdout
    assert (as_json["attempt"], as_json["restarts"][0]["reason"]) == (1, "rank 1 exit code 3")
    wait_until(lambda: ask.status(job).node.ranks[0].step > 0, "the workers")
    assert finish(flota, job) == [0]


def test_nodes_of_one_job_in_one_directory_are_one_job(flota):
    """Also without a token, with which they cannot ask each other."""
    nodes = start_nodes(flota, "--nnodes", 2, token="")

    ended = command(flota, "stop")

    assert (ended.returncode, ended.stdout) == (0, "flota: stopping the job\n")
    assert [node.output() and node.wait() for node in nodes] == [143, 143]


def test_the_running_job_of_a_directory_comes_before_its_finished_one(flota, ask):
    failed = flota.run("--log_dir", "log", "fails.py", env={"FAIL_RANK": "0", "FAIL_HOW": "7"})
    running = flota.start("--log_dir", "runs/{time}", "reports.py", env={"STAGE": str(flota.directory)})
    wait_until(lambda: running.pid in local_nodes(), "its socket")

    assert "running on " in command(flota, "why").stdout
    assert failed.returncode == 7 and "exit code 7" in command(flota, "why", "log").stdout
    running.wait_for("step.0")
    assert "rank 0 step 1\n" in command(flota, "logs").stdout
    assert finish(flota, running) == [0]


def test_top_prints_a_snapshot_as_json(flota, job):
    answer = json.loads(command(flota, "top", "--json").stdout)

    assert [rank["rank"] for node in answer["nodes"] for rank in node["ranks"]] == [0, 1]
    assert (answer["job"]["state"], answer["missing"]) == ("running", [])
    assert finish(flota, job) == [0]


def test_dashboard_prints_its_link_as_json(flota, job):
    words = [COMMAND, "dashboard", "--job", str(job.pid), "--json"]
    with subprocess.Popen(words, cwd=flota.directory, env=environment(), stdout=subprocess.PIPE, text=True) as page:
        answer = json.loads("".join(iter(page.stdout.readline, "}\n")) + "}")
        page.terminate()

    assert answer["link"].startswith("http://127.0.0.1:")
    assert finish(flota, job) == [0]


def test_a_job_of_one_node_cannot_be_drained(flota, job):
    ended = command(flota, "drain", 0)

    assert ended.returncode == 2
    assert "the job has only this node: to end it, use flota stop" in ended.stderr
    assert "the job has no node `7`; its nodes: 0 (" in command(flota, "drain", 7).stderr


def test_all_nodes_are_asked_through_one(flota, nodes, ask):
    answer = ask.job(nodes[0].pid).status()

    assert [node.pid for node in answer.nodes] in ([nodes[0].pid, nodes[1].pid], [nodes[1].pid, nodes[0].pid])
    assert [rank.rank for node in answer.nodes for rank in node.ranks] == [0, 1]
    assert answer.missing == ()
    other = ask.node(answer.job.nodes[1].endpoint, Access(TOKEN))
    assert b"rank 1 step 1\n" in other.log_from("trainer", 1, 0, 0, 1 << 20)[1]
    told = command(flota, "why", "--at", answer.job.nodes[1].endpoint, env={"FLOTA_TOKEN": TOKEN})
    assert told.stdout.splitlines()[1] == "it has not restarted"
    listed = command(flota, "ps", "--at", answer.job.nodes[1].endpoint, "--json", env={"FLOTA_TOKEN": TOKEN})
    (facts,) = json.loads(listed.stdout)
    host = os.uname().nodename
    assert (facts["nodes"], facts["hosts"]) == (2, [host, host])
    assert f"2 ({host}, {host})" in command(flota, "ps").stdout
    assert finish(flota, *nodes) == [0, 0]


def test_a_spare_is_shown_as_one(flota, ask):
    nodes = start_nodes(flota, "--nnodes", 2, "--spares", 1, count=3)
    wait_until(lambda: all(len(ask.status(node).job.spares) == 1 for node in nodes), "a spare that all nodes know")

    states = {node.pid: ask.status(node).node.state for node in nodes}

    assert sorted(states.values()) == ["running", "running", "spare"]
    [spare] = [node for node in nodes if states[node.pid] == "spare"]
    status = ask.status(spare)
    assert (status.job.state, status.job.world_size, len(status.job.nodes)) == ("running", 2, 2)
    assert (status.node.seat, status.node.ranks, status.job.spares[0].seat) == (-1, (), -1)
    assert [len(node.ranks) for node in ask.job(spare.pid).status().nodes] == [1, 1]
    rows = [line.split() for line in command(flota, "ps").stdout.splitlines() if "log" in line]
    own = {row[1]: (row[2], row[3]) for row in rows if int(row[1]) in states}
    assert own == {str(pid): (state, "2+1") for pid, state in states.items()}
    listed = command(flota, "ps", "--at", status.job.spares[0].endpoint, "--json", env={"FLOTA_TOKEN": TOKEN})
    assert [(row["state"], row["endpoint"]) for row in json.loads(listed.stdout)] == [
        ("spare", status.job.spares[0].endpoint)
    ]
    assert finish(flota, *nodes) == [0, 0, 0]


def start_with_spare(flota, ask, token=TOKEN):
    """The spare comes first."""
    nodes = start_nodes(flota, "--nnodes", 2, "--spares", 1, count=3, token=token)
    wait_until(lambda: all(len(ask.status(node).job.spares) == 1 for node in nodes), "a spare that all nodes know")
    return sorted(nodes, key=lambda node: ask.status(node).node.state != "spare")


def test_commands_on_the_host_of_a_spare_act_on_the_job(flota, ask):
    spare, *others = start_with_spare(flota, ask)

    stack = command(flota, "stack", "--log_dir", ask.status(spare).job.log_dir)
    assert stack.returncode == 0 and "steps: " in stack.stdout, stack.stderr
    assert command(flota, "restart", "--job", spare.pid).stdout == "flota: restarting all workers\n"
    wait_until(lambda: ask.status(others[0]).job.round == 1, "the next round")
    wait_until(lambda: ask.status(spare).node.state == "spare", "the spare")
    assert command(flota, "stop", "--job", spare.pid).stdout == "flota: stopping the job\n"
    assert [node.output() and node.wait() for node in (spare, *others)] == [143, 143, 143]


def test_a_spare_without_a_token_says_where_to_run_the_command(flota, ask):
    spare, *others = start_with_spare(flota, ask, token="")

    for verb in ("stop", "restart"):
        refused = command(flota, verb, "--job", spare.pid)
        assert refused.returncode == 2
        assert "it takes no requests from other machines; run the command there" in refused.stderr.splitlines()[0]
    assert finish(flota, spare, *others) == [0, 0, 0]


def test_a_node_is_drained_only_if_its_name_is_clear(flota, ask):
    spare, *others = start_with_spare(flota, ask)
    host = os.uname().nodename

    several, unknown = (command(flota, "drain", name, "--job", spare.pid) for name in (host, 7))
    names = f"0 ({host}), 1 ({host}), {host} (spare)"
    assert f"several nodes of the job are on `{host}`; its nodes: {names}" in several.stderr
    assert f"the job has no node `7`; its nodes: {names}" in unknown.stderr
    assert finish(flota, spare, *others) == [0, 0, 0]


def test_a_node_that_waits_for_the_members_of_its_etcd_can_be_asked_and_stopped(flota):
    held = hold_free(1, "127.0.0.1")
    place = f"127.0.0.1:{port_of(held[0])}"
    release(held)
    node = flota.start("--nnodes", 3, "--masters", 3, "--master", place, "reports.py")
    wait_until(lambda: node.pid in local_nodes(), "its socket")

    wait_until(lambda: f" {node.pid} " in command(flota, "ps").stdout, "a row of it")
    [row] = [line for line in command(flota, "ps").stdout.splitlines() if f" {node.pid} " in line]
    restart = command(flota, "restart", "--job", node.pid)
    stop = command(flota, "stop", "--job", node.pid)

    assert " waiting " in row
    assert (restart.returncode, stop.returncode) == (2, 0), restart.stderr + stop.stderr
    assert "the job is not running" in restart.stderr
    assert "stopped by SIGTERM while waiting for the nodes that run etcd" in node.output()[1]
    assert node.wait() == 143


def test_stack_asks_a_job_on_other_machines(flota, nodes, ask):
    endpoint = ask.status(nodes[0]).job.nodes[1].endpoint

    ended = command(flota, "stack", "--at", endpoint, env={"FLOTA_TOKEN": TOKEN})

    assert ended.returncode == 0, ended.stderr
    assert "steps: " in ended.stdout and " in <module> at reports.py:" in ended.stdout
    as_json = json.loads(command(flota, "stack", "--at", endpoint, "--json", env={"FLOTA_TOKEN": TOKEN}).stdout)
    assert as_json["summary"][0].startswith("steps: ") and as_json["ranks"] == []
    assert finish(flota, *nodes) == [0, 0]


def test_a_drained_node_leaves_and_the_others_go_on(flota, ask):
    nodes = start_nodes(flota, "--nnodes", "1:2", "--elastic_timeout", "2s")
    wait_until(lambda: ask.status(nodes[0]).job.world_size == 2, "both nodes")

    refused = command(flota, "drain", 0, "--job", nodes[1].pid)
    assert refused.returncode == 2
    assert (
        "refused: this node serves the job's master, so the job would end: to end it, use flota stop\n"
        in refused.stderr
    )

    ended = command(flota, "drain", 1, "--job", nodes[0].pid)

    assert (ended.returncode, ended.stdout) == (0, "flota: this node leaves the job\n")
    wait_until(lambda: sum(node.process.poll() is not None for node in nodes) == 1, "one node to leave")
    (stays,) = [node for node in nodes if node.process.poll() is None]
    wait_until(lambda: ask.status(stays).job.world_size == 1, "a round without it")
    assert finish(flota, stays) == [0]


def test_a_job_that_needs_all_nodes_cannot_be_drained(flota, nodes):
    ended = command(flota, "drain", 1, "--job", nodes[0].pid)

    assert ended.returncode == 2
    assert "the job needs at least 2 nodes: to end it, use flota stop" in ended.stderr
    assert finish(flota, *nodes) == [0, 0]


def test_a_restart_of_one_node_restarts_all(flota, nodes, ask):
    assert command(flota, "restart", "--job", nodes[1].pid).returncode == 0

    wait_until(lambda: [ask.status(node).job.round for node in nodes] == [1, 1], "the next round on both")
    assert ask.status(nodes[0]).job.attempt == 0
    wait_until(lambda: ask.status(nodes[0]).node.ranks[0].step > 0, "the workers")
    assert finish(flota, *nodes) == [0, 0]


def test_stop_at_an_endpoint_ends_all_nodes(flota, nodes, ask):
    endpoint = ask.status(nodes[0]).job.nodes[1].endpoint

    assert command(flota, "stop", "--at", endpoint, env={"FLOTA_TOKEN": TOKEN}).returncode == 0

    assert [node.output() and node.wait() for node in nodes] == [143, 143]


def test_stop_ends_an_elastic_job_on_all_nodes(flota, ask):
    nodes = start_nodes(flota, "--nnodes", "1:2", "--elastic_timeout", "2s")
    wait_until(lambda: ask.status(nodes[0]).job.world_size == 2, "both nodes")
    (other,) = [node for node in nodes if ask.status(node).node.seat == 1]  # which does not serve the master

    ended = command(flota, "stop", "--job", other.pid)

    assert (ended.returncode, ended.stdout) == (0, "flota: stopping the job\n")
    assert [node.output() and node.wait() for node in nodes] == [143, 143]


@pytest.mark.parametrize("token", ["", "wrong"])
def test_without_the_token_there_is_no_answer(flota, nodes, token, ask):
    endpoint = ask.status(nodes[0]).job.nodes[0].endpoint

    with pytest.raises(CannotAsk, match="does not have the job's token"):
        ask.node(endpoint, Access(token)).status()
    with pytest.raises(CannotAsk, match="does not have the job's token"):
        ask.node(endpoint, Access(token)).act("stop")
    with pytest.raises(CannotAsk, match="is not sent over the network"):
        ask.node(endpoint, Access(TOKEN)).access()
    assert finish(flota, *nodes) == [0, 0]


def test_a_node_that_does_not_answer_is_named(flota, nodes, ask):
    told = ask.keep(JobClient(ask.node(nodes[0].pid), Access("wrong"))).status()

    assert [node.pid for node in told.nodes] == [nodes[0].pid]
    assert told.missing == ((os.uname().nodename, "the request does not have the job's token"),)
    assert finish(flota, *nodes) == [0, 0]


def test_a_client_that_does_not_read_costs_the_job_nothing(flota, job, ask):
    """It asks again and again, and takes no answer."""
    deaf = [ask.plain(job.pid) for _ in range(8)]
    for client in deaf:
        client.sock.settimeout(1)
        with contextlib.suppress(TimeoutError, ConnectionError):
            client.sock.sendall(b"GET /v1/log?rank=0 HTTP/1.1\r\nhost: x\r\n\r\n" * 10_000)
    before = ask.status(job).node.ranks[0].step

    wait_until(lambda: ask.status(job).node.ranks[0].step > before + 5, "steps to go on")

    assert finish(flota, job) == [0]


def test_damaged_requests_do_not_end_a_job(flota, job, ask):
    chance = random.Random(7)
    whole = b"GET /v1/status HTTP/1.1\r\nhost: x\r\nauthorization: Bearer \xff\r\ncontent-length: 3\r\n\r\nabc"
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 6)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        client = ask.plain(job.pid).sock
        client.sendall(bytes(damaged[: chance.randrange(1, len(damaged) + 1)]))
        client.close()

    assert ask.status(job).job.state == "running"
    assert finish(flota, job) == [0]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("ps", "--nonsense"), "unknown"),
        (("ps", "--at", "nowhere"), "cannot ask nowhere: expected HOST:PORT"),
        (("ps", "--at", "127.0.0.1:1"), "cannot ask 127.0.0.1:1: connection refused"),
        (("stop", "--job", "no such job"), "no "),
        (("stop", "now"), "unexpected argument `now`"),
        (("drain",), "flota drain needs a node"),
        (("restart", "--at"), "--at needs a value"),
    ],
)
def test_bad_input_is_one_line(flota, words, error):
    ended = command(flota, *words)

    assert ended.returncode == 2
    assert error in ended.stderr.splitlines()[0]
    assert "Traceback" not in ended.stderr
