"""Ranks, ports and endpoints of jobs with roles, and what follows from them for a worker."""

from __future__ import annotations

import json

import pytest

from flota.frameworks import REGISTRY, add_variables
from flota.job.plan import plan_workers, roles_of
from flota.job.roles import COORDINATOR, HETER, MIXED, PS, PS_HETER, SERVER, TRAINER, Role
from flota.job.roster import Ports, Roster, Seat, endpoint, split_endpoint, with_endpoints
from flota.job.spec import Command, DeviceSet, JobSpec, LogSpec

GPUS = DeviceSet("gpu", "CUDA_VISIBLE_DEVICES", ("4", "5"), ("4", "5"), by_id=False)
HIDDEN = GPUS._replace(kind="cpu", chosen=())


def seat(number: int, *counts: int) -> Seat:
    """Node N of 10.0.0.N, with ports N000 and up in the order of its roles."""
    ports = tuple(f"{number}{port:03}" for port in range(sum(counts)))
    masters = (f"{number}901", f"{number}902", f"{number}903")
    return Seat("", f"host{number}", f"10.0.0.{number}", Ports(ports, *masters), counts)


def job(*roles: Role, mode: str = MIXED, **facts) -> JobSpec:
    command = Command("script", "train.py", (), "python")
    facts.setdefault("frameworks", REGISTRY)
    return JobSpec(command, sum(role.workers for role in roles), LogSpec("/log"), roles=roles, mode=mode, **facts)


def env_of(spec: JobSpec, roster: Roster, seat_number: int = 0) -> dict[str, dict[str, str]]:
    """Each worker's variables by its name and rank."""
    workers = plan_workers(spec, roster, seat_number)
    return {f"{worker.name} {worker.rank}": add_variables(spec, roster, worker, {}).env for worker in workers}


SERVERS, TRAINERS = Role(SERVER, 1, serves=True), Role(TRAINER, 2)


def test_a_seats_ports_are_its_roles_in_order():
    mixed = seat(1, 2, 0, 1)

    assert [mixed.workers_of(role) for role in range(4)] == [2, 0, 1, 0]
    assert [mixed.ports_of(role) for role in range(4)] == [("1000", "1001"), (), ("1002",), ()]
    assert mixed.workers == 3


def test_a_seat_without_counts_has_one_role():
    plain = seat(1, 2)._replace(workers_by_role=())

    assert [plain.workers_of(0), plain.workers_of(1)] == [2, 0]
    assert [plain.ports_of(0), plain.ports_of(1)] == [("1000", "1001"), ()]


def test_ranks_count_up_in_each_role_over_all_nodes():
    roster = Roster(0, 0, (seat(1, 1, 2), seat(2, 0, 1), seat(3, 2, 0)))

    assert [roster.size(role) for role in (0, 1)] == [3, 3]
    assert roster.workers == 6
    assert [[roster.first_rank(node, role) for node in range(3)] for role in (0, 1)] == [[0, 1, 1], [0, 2, 3]]
    assert roster.endpoints(0) == ("10.0.0.1:1000", "10.0.0.3:3000", "10.0.0.3:3001")
    assert roster.endpoints(1) == ("10.0.0.1:1001", "10.0.0.1:1002", "10.0.0.2:2000")


def test_a_roles_master_is_the_node_of_its_number_0():
    roster = Roster(0, 0, (seat(1, 0, 1, 0), seat(2, 1, 1, 0)))

    for one in (roster, with_endpoints(roster, (SERVERS, TRAINERS, Role("nobody", 0)))):
        assert [one.master(role).host for role in range(3)] == ["host2", "host1", "host1"]
        assert one.endpoints(2) == ()


def test_what_the_user_has_listed_counts_and_not_the_seats():
    listed = ("10.0.0.2:7", "10.0.0.1:7", "10.0.0.2:8")
    roles = (SERVERS, Role(TRAINER, 2, endpoints=listed, own=(0, 2), lead=1))
    roster = with_endpoints(Roster(0, 0, (seat(1, 1, 1), seat(2, 0, 2))), roles)

    assert roster.endpoints(1) == listed
    assert roster.size(1) == 3
    assert roster.master(1).host == "host2"
    assert roster.endpoints(0) == ("10.0.0.1:1000",)
    workers = plan_workers(job(*roles), roster, 1)
    assert [(worker.rank, worker.local_rank, worker.local_size) for worker in workers] == [(0, 0, 2), (2, 1, 2)]
    assert [worker.stdout for worker in workers] == ["/log/workerlog.0", "/log/workerlog.2"]


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("10.0.0.1:6170", "10.0.0.1", "6170"),
        ("10.0.0.1", "10.0.0.1", ""),
        ("node-1:80", "node-1", "80"),
        ("[fd00::1]:6170", "fd00::1", "6170"),
        ("[fd00::1]", "fd00::1", ""),
        ("fd00::1", "fd00::1", ""),
        (":6170", "", "6170"),
        ("10.0.0.1:", "10.0.0.1", ""),
    ],
)
def test_endpoints_in_parts(text, address, port):
    assert split_endpoint(text) == (address, port)
    if address and port:
        assert endpoint(address, port) == text


def test_stages_share_a_name_its_ranks_and_its_devices():
    stages = [Role(HETER, 1, serves=True, stage=stage, devices=GPUS, private=True) for stage in (2, 3)]
    spec = job(SERVERS, *stages, TRAINERS._replace(devices=GPUS, private=True), mode=PS_HETER, devices=GPUS)
    roster = with_endpoints(Roster(0, 0, (seat(1, 1, 1, 1, 2), seat(2, 0, 2, 1, 0))), spec.all_roles)

    heter = [[one for one in plan_workers(spec, roster, node) if one.name == HETER] for node in (0, 1)]

    assert [(one.rank, one.number, one.local_rank) for one in heter[0]] == [(0, 0, 0), (3, 0, 1)]
    assert [(one.rank, one.number, one.local_rank) for one in heter[1]] == [(1, 1, 0), (2, 2, 1), (4, 1, 2)]
    assert [[one.devices for one in node] for node in heter] == [[("4",), ("5",)], [("4",), ("5",), ("4",)]]
    assert {one.local_size for one in heter[0]} == {2}
    assert {one.local_size for one in heter[1]} == {3}
    logs = [one.stdout for node in heter for one in node]
    assert logs == [f"/log/heterlog.{rank}" for rank in (0, 3, 1, 2, 4)]
    env = env_of(spec, roster, 1)
    assert env["heter 2"]["PADDLE_PORT"] == "2001"
    assert (env["heter 4"]["PADDLE_PORT"], env["heter 4"]["STAGE_ID"]) == ("2002", "3")
    assert env["heter 4"]["PADDLE_PREVIOUS_HETER_TRAINER_IP_PORT_LIST"] == "10.0.0.1:1001,10.0.0.2:2000,10.0.0.2:2001"
    assert env["heter 1"]["PADDLE_NEXT_HETER_TRAINER_IP_PORT_LIST"] == "10.0.0.1:1002,10.0.0.2:2002"
    assert env["heter 1"]["PADDLE_STAGE_TRAINERS_NUM"] == "[2, 3, 2]"


@pytest.mark.parametrize(("trainers", "devices"), [(1, ["4"]), (2, ["4", "5"]), (3, ["4", "5", "4"])])
def test_each_trainer_sees_its_own_device_and_servers_see_none(trainers, devices):
    servers = Role(SERVER, 1, serves=True, devices=HIDDEN)
    spec = job(servers, Role(TRAINER, trainers, devices=GPUS, private=True), mode=PS, devices=GPUS)
    roster = with_endpoints(Roster(0, 0, (seat(1, 1, trainers),)), spec.all_roles)

    env = env_of(spec, roster)

    assert env["server 0"]["CUDA_VISIBLE_DEVICES"] == ""
    assert "FLAGS_selected_gpus" not in env["server 0"]
    seen = [env[f"trainer {rank}"] for rank in range(trainers)]
    assert [one["CUDA_VISIBLE_DEVICES"] for one in seen] == devices
    assert [one["FLOTA_DEVICE"] for one in seen] == devices
    assert {one["FLAGS_selected_gpus"] for one in seen} == {"0"}, "an index among those that it sees"


@pytest.mark.parametrize(
    ("counts", "serving"),
    [((1, 2), [True, False, False]), ((2, 0), [False, False])],
)
def test_unused_servers_do_not_serve(counts, serving):
    spec = job(SERVERS, TRAINERS)
    roster = with_endpoints(Roster(0, 0, (seat(1, *counts),)), spec.all_roles)

    assert [role.serves for role in roles_of(spec, roster, plan_workers(spec, roster, 0))] == serving


def test_servers_of_a_node_serve_the_trainers_of_another():
    spec = job(SERVERS, TRAINERS._replace(workers=0))
    roster = with_endpoints(Roster(0, 0, (seat(1, 1, 0), seat(2, 0, 2))), spec.all_roles)

    assert [role.serves for role in roles_of(spec, roster, plan_workers(spec, roster, 0))] == [True]


def test_a_roles_own_command_environment_and_world():
    data = Role("data-server", 1, command=Command("script", "data.py", ("--x",), "python"), env=(("A", "own"),))
    spec = job(TRAINERS, data, env=(("A", "job"), ("B", "job")))
    roster = with_endpoints(Roster(0, 0, (seat(1, 2, 1),)), spec.all_roles)

    env = env_of(spec, roster)

    commands = [worker.argv for worker in plan_workers(spec, roster, 0)]
    assert commands == [("python", "-u", "train.py")] * 2 + [("python", "-u", "data.py", "--x")]
    assert [(one["A"], one["B"]) for one in env.values()] == [("job", "job")] * 2 + [("own", "job")]
    own = env["data-server 0"]
    assert (own["RANK"], own["WORLD_SIZE"], own["FLOTA_ROLE"], own["FLOTA_ENDPOINT"]) == (
        "0",
        "1",
        "data-server",
        "10.0.0.1:1002",
    )
    for one in env.values():
        assert one["FLOTA_ENDPOINTS_TRAINER"] == "10.0.0.1:1000,10.0.0.1:1001"
        assert one["FLOTA_ENDPOINTS_DATA_SERVER"] == "10.0.0.1:1002"


def test_streams_of_the_main_role_alone_have_files_of_their_own():
    spec = job(SERVERS, TRAINERS)._replace(log=LogSpec("/log", redirects=3))
    roster = with_endpoints(Roster(0, 0, (seat(1, 1, 1),)), spec.all_roles)

    assert [worker.logs for worker in plan_workers(spec, roster, 0)] == [
        ("/log/serverlog.0",),
        ("/log/workerlog.0.out", "/log/workerlog.0.err"),
    ]


def test_the_main_role_has_its_own_master_ports_and_the_others_use_their_first_workers():
    spec = job(SERVERS, TRAINERS, Role("evaluator", 1))
    roster = with_endpoints(Roster(0, 0, (seat(1, 1, 0, 1), seat(2, 0, 2, 1))), spec.all_roles)

    env = env_of(spec, roster, 1)

    assert spec.main == 1
    trainer, evaluator = env["trainer 1"], env["evaluator 1"]
    assert (trainer["MASTER_ADDR"], trainer["MASTER_PORT"]) == ("10.0.0.2", "2901")
    assert (trainer["PADDLE_MASTER"], trainer["JAX_COORDINATOR_ADDRESS"]) == ("10.0.0.2:2902", "10.0.0.2:2903")
    assert (evaluator["MASTER_ADDR"], evaluator["MASTER_PORT"]) == ("10.0.0.1", "1001")
    assert evaluator["PADDLE_MASTER"] == evaluator["JAX_COORDINATOR_ADDRESS"] == "10.0.0.1:1001"


def test_gloo_uses_the_first_servers_node():
    spec = job(Role(SERVER, 0, serves=True), TRAINERS, mode=PS)
    roster = with_endpoints(Roster(0, 0, (seat(1, 0, 2), seat(2, 1, 0))), spec.all_roles)

    assert env_of(spec, roster)["trainer 0"]["PADDLE_GLOO_HTTP_ENDPOINT"] == "10.0.0.2:2902"
    fixed = spec._replace(gloo_port=6767)
    assert env_of(fixed, roster)["trainer 0"]["PADDLE_GLOO_HTTP_ENDPOINT"] == "10.0.0.2:6767"


def test_workers_get_the_name_that_was_listed():
    """A server looks itself up in the list by this name."""
    servers = Role(SERVER, 1, serves=True, endpoints=("node1:6170", "node2:6170"), own=(0,))
    spec = job(servers, TRAINERS, mode=PS, gloo_port=6767)
    roster = with_endpoints(Roster(0, 0, (seat(1, 1, 2), seat(2, 1, 0))), spec.all_roles)

    own = env_of(spec, roster)["server 0"]

    assert f"{own['POD_IP']}:{own['PADDLE_PORT']}" == "node1:6170"
    assert own["PADDLE_GLOO_HTTP_ENDPOINT"] == "node1:6767"
    assert own["POD_NAME"] == "host1"


def test_without_servers_gloo_uses_the_first_node():
    spec = job(Role(SERVER, 0, serves=True), TRAINERS, mode=PS)
    roster = with_endpoints(Roster(0, 0, (seat(1, 0, 2), seat(2, 0, 2))), spec.all_roles)

    assert env_of(spec, roster, 1)["trainer 2"]["PADDLE_GLOO_HTTP_ENDPOINT"] == "10.0.0.1:1902"


def test_a_server_has_no_trainers_id_and_a_coordinator_has():
    spec = job(SERVERS, Role(COORDINATOR, 1, serves=True), TRAINERS, mode=PS)
    roster = with_endpoints(Roster(0, 0, (seat(1, 1, 1, 2),)), spec.all_roles)

    env = env_of(spec, roster)

    assert {who: one.get("PADDLE_TRAINER_ID") for who, one in env.items()} == {
        "server 0": None,
        "coordinator 0": "0",
        "trainer 0": "0",
        "trainer 1": "1",
    }
    assert {who: one.get("PADDLE_COORDINATOR_NUM") for who, one in env.items() if who != "coordinator 0"} == {
        "server 0": None,
        "trainer 0": None,
        "trainer 1": None,
    }


# TensorFlow.


def tf_configs(spec: JobSpec, roster: Roster, seat_number: int = 0) -> dict[str, dict]:
    found = env_of(spec._replace(frameworks=("tensorflow",)), roster, seat_number)
    return {who: json.loads(env["TF_CONFIG"]) for who, env in found.items() if "TF_CONFIG" in env}


def test_tf_config_of_a_chief_workers_servers_and_an_evaluator():
    spec = job(Role("ps", 1, serves=True), Role("chief", 1), Role("worker", 2), Role("evaluator", 1), Role("data", 1))
    roster = with_endpoints(Roster(0, 0, (seat(1, 1, 1, 1, 0, 1), seat(2, 0, 0, 1, 1, 0))), spec.all_roles)

    found = {**tf_configs(spec, roster, 0), **tf_configs(spec, roster, 1)}

    cluster = {
        "ps": ["10.0.0.1:1000"],
        "chief": ["10.0.0.1:1001"],
        "worker": ["10.0.0.1:1002", "10.0.0.2:2000"],
    }
    assert {who: config["task"] for who, config in found.items()} == {
        "ps 0": {"type": "ps", "index": 0},
        "chief 0": {"type": "chief", "index": 0},
        "worker 0": {"type": "worker", "index": 0},
        "worker 1": {"type": "worker", "index": 1},
        "evaluator 0": {"type": "evaluator", "index": 0},
    }
    for who, config in found.items():
        own = {"evaluator": ["10.0.0.2:2001"]} if who == "evaluator 0" else {}
        assert config["cluster"] == {**cluster, **own}, "an evaluator watches from outside"


def test_tf_config_of_trainers_and_servers():
    spec = job(SERVERS, Role(COORDINATOR, 1, serves=True), TRAINERS, mode=PS)
    roster = with_endpoints(Roster(0, 0, (seat(1, 1, 1, 2),)), spec.all_roles)

    found = tf_configs(spec, roster)

    assert set(found) == {"server 0", "trainer 0", "trainer 1"}
    assert found["server 0"]["task"] == {"type": "ps", "index": 0}
    assert found["trainer 1"] == {
        "cluster": {"ps": ["10.0.0.1:1000"], "worker": ["10.0.0.1:1002", "10.0.0.1:1003"]},
        "task": {"type": "worker", "index": 1},
    }


def test_roles_that_are_one_task_are_counted_together():
    spec = job(SERVERS, Role("ps", 2, serves=True), TRAINERS)
    roster = with_endpoints(Roster(0, 0, (seat(1, 1, 2, 2),)), spec.all_roles)

    found = tf_configs(spec, roster)

    assert [found[who]["task"]["index"] for who in ("server 0", "ps 0", "ps 1")] == [0, 1, 2]
    for who in ("server 0", "ps 0", "ps 1"):
        own = found[who]["cluster"]["ps"][found[who]["task"]["index"]]
        assert own == env_of(spec, roster)[who]["FLOTA_ENDPOINT"]


def test_a_role_without_workers_has_no_place_in_the_cluster():
    spec = job(Role("ps", 0, serves=True), Role("worker", 1))
    roster = with_endpoints(Roster(0, 0, (seat(1, 0, 1),)), spec.all_roles)

    assert tf_configs(spec, roster)["worker 0"]["cluster"] == {"worker": ["10.0.0.1:1000"]}


# ps-lite.


def dmlc(env: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix("DMLC_"): value for name, value in env.items() if name.startswith("DMLC_")}


@pytest.mark.parametrize("name", [TRAINER, "worker"])
def test_ps_lite_connects_to_its_scheduler(name):
    roles = (Role("scheduler", 1, serves=True), Role(SERVER, 2, serves=True), Role(name, 2), Role("evaluator", 1))
    spec = job(*roles)
    roster = with_endpoints(Roster(0, 0, (seat(1, 0, 1, 2, 0), seat(2, 1, 1, 1, 1))), spec.all_roles)

    found = {**env_of(spec, roster, 0), **env_of(spec, roster, 1)}

    common = {"PS_ROOT_URI": "10.0.0.2", "PS_ROOT_PORT": "2000", "NUM_SERVER": "2", "NUM_WORKER": "3"}
    assert dmlc(found["scheduler 0"]) == {**common, "ROLE": "scheduler", "NODE_HOST": "10.0.0.2"}
    assert dmlc(found["server 0"]) == {**common, "ROLE": "server", "NODE_HOST": "10.0.0.1"}
    assert dmlc(found[f"{name} 2"]) == {**common, "ROLE": "worker", "NODE_HOST": "10.0.0.2", "WORKER_ID": "2"}
    assert dmlc(found["evaluator 0"]) == {}


def test_without_a_scheduler_ps_lite_gets_no_variables():
    for spec in (job(SERVERS, TRAINERS), job(Role("scheduler", 0, serves=True), TRAINERS)):
        roster = with_endpoints(Roster(0, 0, (seat(1, *(role.workers for role in spec.roles)),)), spec.all_roles)
        assert not any(dmlc(env) for env in env_of(spec, roster).values())
