"""PaddleCloud: from a pod's variables to hints, and from hints to settings that everything else wins over."""

from __future__ import annotations

import pytest

from flota.cli.build_spec import choose_start_port
from flota.cli.nodes_spec import make_nodes
from flota.cli.parse import parse
from flota.cli.platform_settings import add_platform_settings
from flota.cli.settings import Request, gather, without_parents_variables
from flota.errors import BadPlatformValue, Contradiction
from flota.job.nodes import NodesSpec, Place
from flota.platforms import Hints, find_platforms

ALONE = {"PADDLE_TRAINERS": "10.0.0.1", "POD_IP": "10.0.0.1", "PADDLE_TRAINER_ID": "0", "TRAINER_PORTS_NUM": "2"}
SECOND = {
    "PADDLE_TRAINERS": "10.0.0.1,10.0.0.2",
    "PADDLE_TRAINERS_NUM": "2",
    "POD_IP": "10.0.0.2",
    "PADDLE_TRAINER_ID": "1",
    "TRAINER_PORTS_NUM": "2",
    "PADDLE_PORT": "7001",
}
SERVER = {**SECOND, "TRAINING_ROLE": "PSERVER", "PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.8:7001,10.0.0.9:7001"}
DISTRIBUTED = "DISTRIBUTED_TRAINER_ENDPOINTS"


# From variables to hints.


def detect(environ):
    found = find_platforms(environ)
    return found[0][1] if found else None


@pytest.mark.parametrize("missing", ["PADDLE_TRAINERS", "POD_IP", "PADDLE_TRAINER_ID", "TRAINER_PORTS_NUM"])
def test_it_takes_all_four_marks_to_be_inside(missing):
    without = {name: value for name, value in SERVER.items() if name != missing}

    for environ in (without, {**without, missing: ""}):
        assert detect(environ) is None
    assert detect({**SECOND, "FLOTA_GIVEN": "RANK,WORLD_SIZE"}) is None, "a worker of flota's, with --framework torch"


def test_pods_are_nodes_in_order():
    assert detect(SECOND) == Hints(
        source="PADDLE_TRAINERS",
        nodes=2,
        rank=1,
        rank_source="PADDLE_TRAINER_ID",
        master="10.0.0.1:7000",
        ports=range(7001, 7003),
    )
    assert detect({**SECOND, "TRAINING_ROLE": "TRAINER"}) == detect(SECOND), "without servers a role means nothing"


@pytest.mark.parametrize(
    "changes",
    [
        {"PADDLE_TRAINERS": "10.0.0.1", "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:7001,10.0.0.1:7002"},
        {"PADDLE_TRAINERS": "10.0.0.1", "PADDLE_TRAINERS_NUM": "4"},
        {"DISTRIBUTED_TRAINER_ENDPOINTS": "10.0.0.1:7001,10.0.0.1:7002"},
        {"PADDLE_TRAINERS_NUM": "1", "DISTRIBUTED_TRAINER_ENDPOINTS": "10.0.0.1:7001,10.0.0.2:7001"},
    ],
)
def test_one_address_or_one_trainer_is_a_job_like_any_other(changes):
    assert detect({**SECOND, **changes}) == Hints()


@pytest.mark.parametrize(
    ("lists", "source", "nodes", "master"),
    [
        ({"PADDLE_TRAINER_ENDPOINTS": "a:7001,b:1,c:1"}, "PADDLE_TRAINER_ENDPOINTS", 3, "a"),
        ({"PADDLE_TRAINER_ENDPOINTS": "a:1", DISTRIBUTED: "b:7001,c:7001"}, DISTRIBUTED, 2, "b"),
        ({"PADDLE_TRAINERS": "job-worker-0, job-worker-1,"}, "PADDLE_TRAINERS", 2, "job-worker-0"),
        ({"PADDLE_TRAINERS": "fd00::1,fd00::2"}, "PADDLE_TRAINERS", 2, "[fd00::1]"),
        ({"PADDLE_TRAINER_ENDPOINTS": "[fd00::1]:7001,[fd00::2]:1"}, "PADDLE_TRAINER_ENDPOINTS", 2, "[fd00::1]"),
    ],
)
def test_the_best_list_names_the_nodes(lists, source, nodes, master):
    hints = detect({**SECOND, **lists})

    assert (hints.source, hints.nodes, hints.master) == (source, nodes, f"{master}:7000")


@pytest.mark.parametrize(
    ("changes", "master", "ports"),
    [
        ({}, 7000, range(7001, 7003)),
        ({"TRAINER_PORTS_NUM": "20", "PADDLE_PORT": "2379"}, 2378, range(2379, 2399)),
        ({"PADDLE_PORT": ""}, 6768, range(0)),
        ({"TRAINER_PORTS_NUM": "0"}, 6768, range(0)),
        ({"PADDLE_PORT": "65535"}, 65534, range(65535, 65536)),
        # Of an endpoint a node, its port is the first of many.
        ({"PADDLE_PORT": "", "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:81,10.0.0.2:91"}, 80, range(91, 93)),
        ({"PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:81,10.0.0.2:91"}, 80, range(91, 93)),
        ({"DISTRIBUTED_TRAINER_ENDPOINTS": "10.0.0.1:81,10.0.0.2:91"}, 80, range(91, 93)),
        ({"DISTRIBUTED_TRAINER_ENDPOINTS": "10.0.0.1,10.0.0.2"}, 6768, range(0)),
        # Of as many endpoints as a node has ports, each is one.
        ({"DISTRIBUTED_TRAINER_ENDPOINTS": "10.0.0.1:81,10.0.0.1:82,10.0.0.2:91,10.0.0.2:92"}, 80, range(91, 93)),
        ({"DISTRIBUTED_TRAINER_ENDPOINTS": "10.0.0.1:85,10.0.0.1:81,10.0.0.2:91,10.0.0.2:95"}, 80, range(0)),
        # An address in no list has the ports of its number.
        ({"DISTRIBUTED_TRAINER_ENDPOINTS": "10.0.0.1:81,pod-1:91"}, 80, range(91, 93)),
    ],
)
def test_the_master_is_beside_the_first_nodes_ports(changes, master, ports):
    hints = detect({**SECOND, **changes})

    assert (hints.master, hints.ports) == (f"10.0.0.1:{master}", ports)


@pytest.mark.parametrize("lists", [{}, {DISTRIBUTED: "10.0.0.1:81,10.0.0.2:91"}])
def test_all_nodes_come_to_the_same_master(lists):
    port = "81" if lists else SECOND["PADDLE_PORT"]
    first = {**SECOND, **lists, "POD_IP": "10.0.0.1", "PADDLE_TRAINER_ID": "0", "PADDLE_PORT": port}

    assert detect(first).master == detect({**SECOND, **lists}).master


@pytest.mark.parametrize("role", ["PSERVER", "TRAINER", "HETER_TRAINER"])
def test_a_role_is_all_that_is_known_where_there_are_servers(role):
    environ = {**SERVER, "TRAINING_ROLE": role, "PADDLE_TRAINER_ID": "7"}

    hints = detect(environ)
    assert (hints.source, hints.nodes, hints.role, hints.framework) == ("TRAINING_ROLE", 1, role, "paddle")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("PADDLE_TRAINER_ID", "2"),
        ("PADDLE_TRAINER_ID", "one"),
        ("PADDLE_PORT", "0"),
        ("TRAINER_PORTS_NUM", "many"),
        ("DISTRIBUTED_TRAINER_ENDPOINTS", "10.0.0.1:x,10.0.0.2:y"),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(name, word):
    problem = detect({**SECOND, name: word}).problem

    assert isinstance(problem, BadPlatformValue)
    assert problem.message.startswith(f"PaddleCloud's {name} is not a number from ")
    assert "--nnodes 1" in problem.hint


# From hints to settings.


@pytest.fixture
def asked(tmp_path):
    """What a command comes to in a pod."""

    def ask(words: str, **environ: str) -> tuple:
        line = parse([*words.split(), "train.py"])
        own = without_parents_variables(environ)
        request = Request(line, gather(line.given, own, str(tmp_path)), own, None)
        found = find_platforms(environ)
        return (add_platform_settings(request, *found[0]) if found else request)[:2]

    return ask


def test_a_plain_command_is_one_of_the_nodes(asked):
    line, settings = asked("", **SECOND)

    place = Place("10.0.0.1", 7000)
    assert make_nodes(settings, SECOND) == NodesSpec(2, 2, places=(place,), rank=1)
    assert settings["host"] == "10.0.0.2"
    assert line.notes == ("PaddleCloud: 2 nodes, which join at 10.0.0.1:7000",)


@pytest.mark.parametrize("environ", [ALONE, {}, {"PADDLE_TRAINERS": "10.0.0.1,10.0.0.2", "PADDLE_TRAINER_ID": "1"}])
def test_without_platform_information_nothing_changes(asked, environ):
    line, settings = asked("", **environ)

    assert set(settings.given) <= {"host"}
    assert line.notes == ()


@pytest.mark.parametrize(
    ("words", "workers", "start_port"),
    [
        ("", 2, 7001),
        ("", 1, 7001),
        ("", 3, None),
        ("--start_port 9000", 2, 9000),
        ("--port-range 9000:9999", 2, None),
    ],
)
def test_workers_have_the_ports_that_are_kept_for_them_if_these_are_enough(asked, words, workers, start_port):
    _, settings = asked(words, **SECOND)

    assert choose_start_port(settings, workers) == start_port


@pytest.mark.parametrize(
    ("words", "variables", "winner"),
    [
        ("--nnodes 1", {}, "--nnodes"),
        ("--ips 10.0.0.2", {}, "--ips"),
        ("--standalone", {}, "--standalone"),
        ("--rdzv-endpoint 10.0.0.7:1", {}, "--rdzv-endpoint"),
        ("--master-addr 10.0.0.7", {}, "--master-addr"),
        ("--servers 10.0.0.7:1", {}, "--servers"),
        ("--worker_num 2", {}, "--worker_num"),
        ("", {"PADDLE_NNODES": "3"}, "PADDLE_NNODES"),
        ("", {"PADDLE_MASTER": "10.0.0.7:1"}, "PADDLE_MASTER"),
    ],
)
@pytest.mark.parametrize("pod", [SECOND, SERVER, {**SECOND, "PADDLE_TRAINER_ID": "odd"}], ids=["nodes", "role", "odd"])
def test_any_description_of_the_nodes_overrides_the_platform(asked, words, variables, winner, pod):
    line, settings = asked(words, **{**pod, **variables})

    plain = asked(words, POD_IP="10.0.0.2", **variables)[1]
    assert settings.given == plain.given
    assert settings.hints is None
    said = "role PSERVER" if pod == SERVER else "2 nodes"
    assert line.notes[-1] == f"PaddleCloud: {said} ignored because {winner} is given"


def test_another_master_is_combined_with_the_pods(asked):
    _, settings = asked("--master 10.0.0.7:8090", **SECOND)

    assert make_nodes(settings, SECOND) == NodesSpec(2, 2, places=(Place("10.0.0.7", 8090),), rank=1)


def test_a_platform_of_one_node_says_so_to_a_master_without_a_number_of_nodes(asked):
    _, settings = asked("--master 10.0.0.7:8090", **ALONE)

    assert make_nodes(settings, ALONE) is None
    assert "nnodes" not in asked("--master 10.0.0.7:8090 --servers a:1", **ALONE)[1].given


def test_settings_that_do_not_describe_nodes_are_combined_with_the_platform(asked):
    _, settings = asked("--nproc_per_node 2 --host 10.0.0.3 --max_restart 1 --rank 0", **SECOND)

    assert (settings["nnodes"], settings["host"], settings["rank"]) == ((2, 2), "10.0.0.3", 0)


def test_a_role_is_run_once_and_given_no_frameworks_variables(asked):
    line, settings = asked("", **SERVER)

    assert (settings["nproc_per_node"], settings["framework"], settings["host"]) == (None, (), None)
    assert make_nodes(settings, SERVER) is None
    assert line.notes == ("PaddleCloud: running the script once, as PSERVER",)


@pytest.mark.parametrize(
    ("words", "frameworks"),
    [("--framework paddle", ()), ("--framework torch,paddle", ("torch",)), ("--framework jax", ("jax",))],
)
def test_a_role_keeps_its_paddle_variables_whatever_is_asked_for(asked, words, frameworks):
    assert asked(words, **SERVER)[1]["framework"] == frameworks


@pytest.mark.parametrize(
    ("role", "name"),
    [("PSERVER", "server"), ("TRAINER", "trainer"), ("HETER_TRAINER", "heter"), ("COORDINATOR", "coordinator")],
)
def test_flotas_word_for_a_role(asked, role, name):
    _, settings = asked("--env A=B", **{**SERVER, "TRAINING_ROLE": role})

    assert settings.tables == {name: {}}
    assert asked("--run_mode ps", **SERVER)[1].given == asked("", **SERVER)[1].given


@pytest.mark.parametrize(
    ("words", "role", "error", "message"),
    [
        ("", "SCRIBE", BadPlatformValue, r"TRAINING_ROLE is not one of PSERVER.*: `SCRIBE`"),
        ("--nproc_per_node 2", "PSERVER", Contradiction, "--nproc_per_node 2 and TRAINING_ROLE=PSERVER contradict"),
    ],
)
def test_an_impossible_role_is_refused(asked, words, role, error, message):
    with pytest.raises(error, match=message):
        asked(words, **{**SERVER, "TRAINING_ROLE": role})


def test_another_run_mode_wins_over_a_role(asked):
    line, settings = asked("--run_mode collective", **SERVER)

    assert settings["nproc_per_node"] is None
    assert line.notes == ("PaddleCloud: role PSERVER ignored because --run_mode is given",)
