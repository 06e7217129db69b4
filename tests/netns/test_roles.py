"""Jobs with roles on several hosts: who is where, what all agree on, and what a death on one host means on all."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.lab.nodes import Node
from tests.launching import WORKERS, wait_until
from tests.netns.jobs import Job, ask_store, last_words

PLAYS = Path(WORKERS, "plays.py")
A, B = "10.77.0.1", "10.77.0.2"
LISTS = f"--servers {A}:6170,{B}:6170 --trainers {A},{B},{B}"


def notes(job: Job, role: str, number: int = 0, kind: str = "came") -> dict[int, dict[str, Any]]:
    """What the workers of a role have noted, by rank."""
    found = {int(path.name.rpartition(".")[2]): path for path in job.stage.glob(f"{kind}.{number}.{role}.*")}
    return {rank: json.loads(found[rank].read_text()) for rank in sorted(found)}


def hosts(job: Job, role: str, number: int = 0) -> list[str]:
    """Where a role's workers are, by rank."""
    return [note["host"] for note in notes(job, role, number).values()]


def wait_for(job: Job, role: str, count: int, number: int = 0, kind: str = "came") -> None:
    try:
        what = f"{kind} of {count} {role}s in round {number}"
        wait_until(lambda: len(notes(job, role, number, kind)) == count, what)
    except AssertionError as error:
        error.add_note(str(job))
        raise


def wait_for_answers(job: Job, trainers: int, number: int = 0, role: str = "trainer") -> None:
    """Until all trainers have reached all servers."""
    wait_for(job, role, trainers, number, "answered")


def fail(job: Job, role: str, rank: int, how: str = "7") -> None:
    (job.stage / "told").write_text(how)
    (job.stage / "told").rename(job.stage / f"fail.{role}.{rank}")


def told_alike(job: Job, name: str, number: int = 0) -> str:
    """The value of a variable that all workers of a round have."""
    values = {json.loads(path.read_text())[name] for path in job.stage.glob(f"came.{number}.*")}
    assert len(values) == 1
    return str(values.pop())


def start(job: Job, *words: str, play: str = "") -> list[Node]:
    """On hosts 1, 2 …, in these words."""
    return [job.node(number, one, PLAYS, {"PLAY": play}) for number, one in enumerate(words, 1)]


def last_screen(node: Node) -> str:
    """From the line that counts the culprits on."""
    return node.err[node.err.index("ABORT!!!") :]


# Who is where.


def test_ranks_and_lists_agree_everywhere_and_all_ends_with_the_trainers(job):
    one, two = start(job, *["--nnodes 2 --server_num 1 --trainer_num 2 --grace 1"] * 2)
    wait_for_answers(job, 4)

    job.finish()

    assert job.codes() == [0, 0]
    assert hosts(job, "server") == ["host1", "host2"]
    assert hosts(job, "trainer") == ["host1", "host1", "host2", "host2"]
    assert [note["local_rank"] for note in notes(job, "trainer").values()] == ["0", "1", "0", "1"]
    assert {note["world_size"] for note in notes(job, "trainer").values()} == {"4"}
    for role in ("server", "trainer"):
        listed = told_alike(job, f"FLOTA_ENDPOINTS_{role.upper()}").split(",")
        assert [note["FLOTA_ENDPOINT"] for note in notes(job, role).values()] == listed
    answers = [note["answers"] for note in notes(job, "trainer", kind="answered").values()]
    assert answers == [["server 0", "server 1"]] * 4
    assert told_alike(job, "PADDLE_GLOO_HTTP_ENDPOINT").startswith(f"{A}:")
    assert len(notes(job, "server", kind="stopped")) == 2
    assert all("all other workers finished; " in node.err for node in (one, two))
    assert all("2 servers, 4 trainers finished successfully" in last_words(node) for node in (one, two))
    assert (one.out, two.out) == ("trainer 0 is here\n", "")
    assert "rank 0 is on host1; output of server 1 and ranks 2-3 is in" in two.err
    report = json.loads((one.directory / "log" / "report.json").read_text())
    assert (report["roles"], report["verdict"]) == ({"server": 2, "trainer": 4}, "succeeded")
    listed = (one.directory / "log" / "endpoints.log").read_text().split()
    assert listed[5:] == ["PADDLE_PSERVERS_IP_PORT_LIST:", *told_alike(job, "FLOTA_ENDPOINTS_SERVER").split(",")]


def test_a_node_may_have_servers_only_and_another_trainers_only(job):
    words = "--nnodes 2 --grace 0.5"
    serves, trains = start(
        job, f"{words} --rank 0 --server_num 1 --trainer_num 0", f"{words} --rank 1 --server_num 0 --trainer_num 2"
    )
    wait_for_answers(job, 2)

    job.finish()

    assert job.codes() == [0, 0]
    assert (hosts(job, "server"), hosts(job, "trainer")) == (["host1"], ["host2"] * 2)
    assert "all other workers finished; " in serves.err and "all other workers finished" not in trains.err
    assert "rank 0 is on host2; output of server 0 is in" in serves.err
    assert "rank 0 is on" not in trains.err
    assert (serves.out, trains.out) == ("", "trainer 0 is here\n")


# Listed by address.


@pytest.mark.parametrize(
    ("lists", "servers", "trainers"),
    [
        ("--servers host1:6170,host2:6170 --trainers host1,host2", "host1:6170,host2:6170", "host1:6172,host2:6173"),
        (
            "--servers [fd77::1]:6170,[fd77::2]:6170 --trainers fd77::1,[fd77::2]:6171",
            "[fd77::1]:6170,[fd77::2]:6170",
            "[fd77::1]:6172,[fd77::2]:6171",
        ),
    ],
    ids=["names", "ipv6"],
)
def test_hosts_may_be_listed_by_name_and_by_ipv6(shared, tmp_path, lists, servers, trainers):
    job = Job(shared.lab, tmp_path)
    start(job, *[f"{lists} --grace 0.1"] * 2)
    wait_for_answers(job, 2)

    job.finish()

    assert job.codes() == [0, 0]
    assert told_alike(job, "FLOTA_ENDPOINTS_SERVER") == servers
    assert told_alike(job, "FLOTA_ENDPOINTS_TRAINER") == trainers


@pytest.mark.parametrize("master", ["", "--master etcd://10.77.0.9:2379"])
def test_lists_may_be_in_any_order(shared, tmp_path, master):
    job = Job(shared.lab, tmp_path)
    lists = f"--servers {B}:6170,{A}:6170 --trainers {A}:6171,{B}:6171,{A}:6172,{B}:6172 --job_id {job.name}"
    one, two = start(job, *[f"{lists} {master} --grace 0.1"] * 2)
    wait_for_answers(job, 4)

    job.finish()

    assert job.codes() == [0, 0]
    assert hosts(job, "server") == ["host2", "host1"]
    assert hosts(job, "trainer") == ["host1", "host2"] * 2
    assert [note["local_rank"] for note in notes(job, "trainer").values()] == ["0", "0", "1", "1"]
    endpoints = [note["FLOTA_ENDPOINT"] for note in notes(job, "trainer").values()]
    assert endpoints == [f"{A}:6171", f"{B}:6171", f"{A}:6172", f"{B}:6172"]
    assert {note["answers"][0] for note in notes(job, "trainer", kind="answered").values()} == {"server 0"}
    assert told_alike(job, "PADDLE_GLOO_HTTP_ENDPOINT") == f"{B}:6767"
    assert (one.out, two.out) == ("trainer 0 is here\n", "")
    assert "rank 0 is on host1; output of server 0 and ranks 1, 3 is in" in two.err


def test_a_restart_has_the_listed_ports_again(shared, tmp_path):
    """The nodes join at the first server's host, behind the port for gloo."""
    job = Job(shared.lab, tmp_path)
    nodes = start(job, *[f"{LISTS} --max_restart 1 --grace 1"] * 2)
    wait_for_answers(job, 3)
    assert "header" in ask_store(shared.lab, f"{A}:6768", "/v3/kv/range", {"key": "YQ=="})

    fail(job, "trainer", 1)

    wait_for_answers(job, 3, 1)
    job.finish()
    assert job.codes() == [0, 0]
    for number in (0, 1):
        assert told_alike(job, "FLOTA_ENDPOINTS_SERVER", number) == f"{A}:6170,{B}:6170"
        assert told_alike(job, "FLOTA_ENDPOINTS_TRAINER", number) == f"{A}:6172,{B}:6173,{B}:6174"
        assert told_alike(job, "PADDLE_GLOO_HTTP_ENDPOINT", number) == f"{A}:6767"
        assert hosts(job, "trainer", number) == ["host1", "host2", "host2"]
    assert all("rank 1 on host2 failed: exit code 7" in node.err for node in nodes)
    assert all("restarting (1 of 1)" in node.err for node in nodes)


# What a death means.


def test_a_death_on_one_host_is_reported_alike_on_all(job):
    nodes = start(job, *["--nnodes 2 --server_num 1 --trainer_num 2"] * 2)
    wait_for_answers(job, 4)

    os.kill(notes(job, "server")[1]["pid"], signal.SIGKILL)

    assert job.codes() == [137, 137]
    for node in nodes:
        assert "server 1 on host2 failed first: SIGKILL" in node.err
        assert "the server process with rank=[1] was aborted" in node.err
    assert last_screen(nodes[0]) == last_screen(nodes[1])
    assert f"log on host2: {nodes[1].directory}/log/serverlog.1" in last_screen(nodes[0])
    report = json.loads((nodes[0].directory / "log" / "report.json").read_text())
    assert (report["failures"][0]["role"], report["failures"][0]["rank"]) == ("server", 1)
    stopped = [*notes(job, "server", kind="stopped"), *notes(job, "trainer", kind="stopped")]
    assert len(stopped) == 5


def test_nodes_that_only_serve_and_trainers_that_have_ended_take_part_in_a_restart(job):
    words = "--nnodes 3 --max_restart 1 --rank"
    counts = ["--server_num 1 --trainer_num 0", "--server_num 1 --trainer_num 1", "--server_num 0 --trainer_num 1"]
    start(job, *(f"{words} {rank} {count}" for rank, count in enumerate(counts)), play="server=outlive")
    wait_for_answers(job, 2)
    fail(job, "trainer", 0, "0")  # well
    job.wait_for_records(2, "serving")

    fail(job, "trainer", 1)

    wait_for_answers(job, 2, 1)
    job.finish()
    assert job.codes() == [0, 0, 0]
    assert not notes(job, "server", 1, "stopped"), "servers that exit after the work are not waited for"
    before, after = (set(told_alike(job, "FLOTA_ENDPOINTS_SERVER", number).split(",")) for number in (0, 1))
    assert not before & after
    assert hosts(job, "server", 1) == ["host1", "host2"]
    assert hosts(job, "trainer", 1) == ["host2", "host3"]


def test_a_lost_host_of_servers_alone_is_waited_for(job):
    words = "--nnodes 2 --max_restart 1 --grace 1 --rank"
    serves = f"{words} 1 --server_num 1 --trainer_num 0"
    one, two = start(job, f"{words} 0 --server_num 0 --trainer_num 2", serves)
    wait_for_answers(job, 2)

    two.process.kill()

    one.wait_for("host2 was lost; starting a new round")
    job.node(2, serves, PLAYS)
    wait_for_answers(job, 2, 1)
    job.finish()
    assert job.codes() == [0, -9, 0]
    assert hosts(job, "server", 1) == ["host2"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 0)])
def test_a_signal_after_the_work_concerns_its_host_alone(job, number, code):
    words = "--nnodes 2 --server_num 1 --trainer_num 1"
    one, two = start(job, f"{words} --rank 0 --grace 1", f"{words} --rank 1 --grace 5", play="server=stay")
    wait_for_answers(job, 2)
    job.finish()
    for node in (one, two):
        node.wait_for("all other workers finished")

    two.process.send_signal(number)

    assert job.codes() == [0, code]
    assert "lost" not in one.err


def test_roles_of_ones_own_are_counted_by_node_and_one_may_be_ignored(job):
    config = "[roles.evaluator]\non_failure = 'ignore'\n[roles.worker]\n"
    words = "--nnodes 2 --rank"
    nodes = [
        job.node(1, f"{words} 0 --roles evaluator=0,worker=2", PLAYS, config=config),
        job.node(2, f"{words} 1 --roles evaluator=1,worker=1", PLAYS, {"PLAY": "evaluator=SIGKILL"}, config=config),
    ]
    nodes[1].wait_for("evaluator 0 failed: SIGKILL (killed by another process")
    wait_for(job, "worker", 3)

    job.finish()

    assert job.codes() == [0, 0]
    assert hosts(job, "worker") == ["host1", "host1", "host2"]
    clusters = [json.loads(note["TF_CONFIG"])["cluster"] for note in notes(job, "worker").values()]
    assert [len(cluster["worker"]) for cluster in clusters] == [3] * 3
