"""From flags and variables to roles: the mode, the counts, the lists of addresses and the devices."""

from __future__ import annotations

import re
from shlex import split

import pytest

from flota.cli.build_spec import make_spec
from flota.cli.parse import parse
from flota.cli.role_set import choose_mode, make_roles
from flota.cli.settings import Request, gather
from flota.devices import choose_devices, find_devices
from flota.errors import (
    BadConfigFile,
    BadValue,
    Contradiction,
    DuplicateEndpoint,
    MissingScript,
    NoAddresses,
    NoDevices,
    NoneOfRole,
    NoScript,
    NotAmongNodes,
    NoWorkersHere,
    RolesCollide,
    SeveralAmongNodes,
    UnknownDevice,
    UnknownKey,
    UnusedScript,
)
from flota.job.roles import (
    COLLECTIVE,
    END,
    IGNORE,
    MIXED,
    PS,
    PS_HETER,
    RESTART,
    RPC,
    Role,
    in_start_order,
    label,
    log_stem,
)
from flota.job.spec import JobSpec

LISTS = "--servers 127.0.0.1:1 --trainers 127.0.0.1:2"
TWO_HOSTS = "--servers 127.0.0.1:1,127.0.0.2:1 --trainers 127.0.0.1"
NOTHING = {"CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture
def settings(tmp_path):
    def ask(words: str, **environ: str):
        return gather(parse([*split(words), "train.py"]).given, environ, str(tmp_path))

    return ask


@pytest.fixture
def cast(settings):
    """The roles that a command line, and an environment, ask for on this machine."""

    def make(words: str, **environ: str):
        line = parse([*split(words), "train.py"])
        given = settings(words, **environ)
        found = find_devices({**NOTHING, **environ})
        return make_roles(Request(line, given, environ, None), found, choose_devices(found, given["devices"]))

    return make


def counts(cast) -> str:
    return " ".join(f"{role.name}={role.workers}" for role in cast.roles)


# The mode.


@pytest.mark.parametrize(
    ("words", "environ", "mode"),
    [
        ("", {}, COLLECTIVE),
        *((f"--run_mode {mode}", {}, mode) for mode in (COLLECTIVE, PS, PS_HETER, RPC)),
        *((f"--{role}_num 1", {}, PS) for role in ("server", "trainer", "worker", "coordinator")),
        *((f"--{role}s a:1", {}, PS) for role in ("server", "trainer", "worker", "coordinator")),
        ("--heter_worker_num 1", {}, PS_HETER),
        ("--heter_workers a:1", {}, PS_HETER),
        ("--heter_devices gpu", {}, PS_HETER),
        ("--server_num 1 --heter_worker_num 1", {}, PS_HETER),
        ("--run_mode ps --server_num 1", {}, PS),
        ("--run_mode ps-heter --trainer_num 1", {}, PS_HETER),
        ("--roles a=1", {}, MIXED),
        ("", {"PADDLE_RUN_MODE": "ps"}, PS),
        ("", {"PADDLE_SERVER_NUM": "1"}, PS),
        # A flag counts more than a variable.
        ("--run_mode collective", {"PADDLE_SERVER_NUM": "1"}, COLLECTIVE),
        ("--run_mode ps", {"FLOTA_HETER_DEVICES": "cpu"}, PS),
        ("--run_mode ps --server_num 1", {"FLOTA_HETER_DEVICES": "cpu"}, PS),
        ("--heter_worker_num 1", {"PADDLE_RUN_MODE": "ps"}, PS_HETER),
        ("--server_num 1", {"PADDLE_RUN_MODE": "collective"}, PS),
        ("--trainer_num 1", {"PADDLE_SERVER_NUM": "1", "PADDLE_RUN_MODE": "collective"}, PS),
        ("--roles a=1", {"PADDLE_RUN_MODE": "ps"}, MIXED),
        ("", {"FLOTA_RUN_MODE": "rpc", "PADDLE_SERVER_NUM": "1"}, RPC),
    ],
)
def test_the_mode_is_as_asked_for_or_follows_from_the_flags(settings, words, environ, mode):
    assert choose_mode(settings(words, **environ)) == mode


@pytest.mark.parametrize(
    ("words", "environ", "message"),
    [
        ("--run_mode collective --server_num 1", {}, "--run_mode collective and --server_num .* is for ps"),
        ("--run_mode rpc --trainers a", {}, "--run_mode rpc and --trainers .* is for ps"),
        ("--run_mode ps --heter_worker_num 1", {}, "--run_mode ps and --heter_worker_num .* for ps-heter"),
        ("--run_mode ps --roles a=1", {}, "--run_mode ps and --roles .* for jobs with custom roles"),
        ("--server_num 1 --roles a=1", {}, "--roles and --server_num .* both define the job's roles"),
        ("--heter_devices cpu --roles a=1", {}, "--roles and --heter_devices .* both define the job's roles"),
        ("", {"PADDLE_RUN_MODE": "collective", "PADDLE_SERVER_NUM": "1"}, "PADDLE_RUN_MODE collective and PADDLE_SERV"),
    ],
)
def test_a_mode_that_contradicts_the_flags_is_refused(settings, words, environ, message):
    with pytest.raises(Contradiction, match=message):
        choose_mode(settings(words, **environ))


def test_an_unknown_mode_is_answered_with_the_modes(settings):
    with pytest.raises(BadValue, match="`pss` for --run_mode: expected one of collective, ps, ps-heter, rpc"):
        settings("--run_mode pss")


def test_workers_of_rpc_and_of_collective_jobs_have_no_roles(cast):
    assert cast("--run_mode rpc --nproc_per_node 2").roles == ()
    assert cast("--run_mode collective", PADDLE_SERVER_NUM="1").roles == ()


# Counts.


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--run_mode ps", "server=1 trainer=1"),
        ("--server_num 2 --trainer_num 4", "server=2 trainer=4"),
        ("--server_num 2", "server=2 trainer=1"),
        ("--worker_num 3", "server=1 trainer=3"),
        ("--server_num 2 --trainer_num 0", "server=2 trainer=0"),
        ("--coordinator_num 1", "server=1 coordinator=1 trainer=1"),
        ("--coordinator_num 0", "server=1 coordinator=0 trainer=1"),
        ("--trainer_num 2 --heter_worker_num 2", "server=1 heter=2 trainer=2"),
        ("--trainer_num 2 --heter_worker_num '1; 2'", "server=1 heter=1 heter=2 trainer=2"),
        ("--trainer_num 2 --heter_worker_num 0", "server=1 heter=0 trainer=2"),
        ("--run_mode ps-heter --trainer_num 2", "server=1 heter=1 trainer=2"),
        ("--trainer_num 2 --heter_devices cpu", "server=1 heter=1 trainer=2"),
        ("--nnodes 2 --server_num 0 --trainer_num 2", "server=0 trainer=2"),
        ("--nnodes 2 --server_num 0 --trainer_num 0 --heter_worker_num 2", "server=0 heter=2 trainer=0"),
        ("--ips a,b --server_num 0 --trainer_num 2", "server=0 trainer=2"),
        (
            "--nnodes 2 --server_num 0 --trainer_num 0 --heter_worker_num 1 --coordinator_num 1",
            "server=0 coordinator=1 heter=1 trainer=0",
        ),
        ("--server_num 10000 --trainer_num 1 --heter_worker_num 10000", "server=10000 heter=10000 trainer=1"),
    ],
)
def test_counts_and_their_defaults(cast, words, expected):
    assert counts(cast(words)) == expected


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ("--trainer_num 0", NoneOfRole, "--trainer_num 0: the job would have no trainers"),
        ("--worker_num 0", NoneOfRole, "--worker_num 0:"),
        ("--trainer_num 0 --server_num 0", NoneOfRole, "--trainer_num 0:"),
        ("--nnodes 2 --trainer_num 0", NoneOfRole, "--trainer_num 0:"),
        ("--trainer_num 0 --coordinator_num 1", NoneOfRole, "--trainer_num 0:"),
        ("--trainer_num 0 --server_num 1 --heter_worker_num 1", NoneOfRole, "--trainer_num 0:"),
        ("--heter_worker_num 2", NoneOfRole, "--heter_worker_num: the job would have no trainers"),
        ("--run_mode ps-heter", NoneOfRole, "--run_mode ps-heter: the job would have no trainers"),
        ("--server_num 0 --trainer_num 2", NoneOfRole, "--server_num 0: the job would have no servers"),
        ("--server_num 10001", BadValue, "invalid value `10001` for --server_num: expected a number from 0 to 10000"),
        ("--trainer_num 1 --heter_worker_num 10001", BadValue, "for --heter_worker_num: expected"),
        (
            "--trainer_num 1 --heter_worker_num '1;'",
            BadValue,
            "`1;` for --heter_worker_num: expected a number, or one for each stage",
        ),
        (
            "--trainer_num 1 --heter_worker_num ''",
            BadValue,
            "`` for --heter_worker_num: expected a number, or one for each stage",
        ),
        ("--server_num 1 --nproc_per_node 2", Contradiction, "--nproc_per_node and --run_mode ps"),
        ("--server_num 1 --interactive", Contradiction, "--interactive and --run_mode ps"),
        (
            "--server_num 2 --servers 127.0.0.1:1 --trainers 127.0.0.1",
            Contradiction,
            "--server_num 2 and --servers 127.0.0.1:1 contradict each other: 1 address listed",
        ),
        ("--servers 127.0.0.1:1 --trainers 127.0.0.1 --worker_num 0", Contradiction, "--worker_num 0 and --trainers"),
        (
            f"{LISTS} --coordinators 127.0.0.1:3,127.0.0.1:4 --coordinator_num 1",
            Contradiction,
            "--coordinator_num 1 and --coordinators .*: 2 addresses listed",
        ),
        (
            f"{LISTS} --heter_workers '127.0.0.1:3;127.0.0.1:4' --heter_worker_num 2",
            Contradiction,
            "--heter_worker_num 2 and --heter_workers .*: 1;1 addresses listed",
        ),
        (
            f"--host 127.0.0.1 {TWO_HOSTS} --server_num 3",
            Contradiction,
            "--server_num 3 and --servers 127.0.0.1:1,127.0.0.2:1 contradict each other: 2 addresses listed",
        ),
        ("--coordinators 127.0.0.1:1 --coordinator_num 1", NoAddresses, "no server addresses given"),
        ("--trainers 127.0.0.1", NoAddresses, "no server addresses given"),
        ("--servers 127.0.0.1:1", NoAddresses, "no trainer addresses given"),
        ("--servers 127.0.0.1:1 --trainers ,", NoAddresses, "no trainer addresses given"),
        ("--servers 127.0.0.1:1 --trainers 127.0.0.1 --heter_workers ';'", NoAddresses, "no heter addresses given"),
        ("--servers 127.0.0.1:1 --trainers 127.0.0.1 --heter_worker_num 1", NoAddresses, "--heter_worker_num sets"),
        (
            "--servers 127.0.0.1 --trainers 127.0.0.1",
            BadValue,
            "invalid value `127.0.0.1` for --servers: expected addresses with ports",
        ),
        ("--servers 127.0.0.1:0 --trainers 127.0.0.1", BadValue, "`127.0.0.1:0`"),
        ("--servers 127.0.0.1:65536 --trainers 127.0.0.1", BadValue, "`127.0.0.1:65536`"),
        ("--servers :1 --trainers 127.0.0.1", BadValue, "`:1`"),
        ("--servers 127.0.0.1:1 --workers 127.0.0.1:x", BadValue, "for --workers: expected addresses with ports"),
        (
            "--servers 127.0.0.1:1 --trainers 127.0.0.1 --coordinators 127.0.0.1",
            BadValue,
            "for --coordinators: expected",
        ),
        (
            "--servers 127.0.0.1:1 --trainers 127.0.0.1 --heter_workers 127.0.0.1",
            BadValue,
            "for --heter_workers: expected",
        ),
        ("--servers 127.0.0.1:1,127.0.0.1:1 --trainers 127.0.0.1", DuplicateEndpoint, "for two servers"),
        ("--servers 127.0.0.1:1 --trainers 127.0.0.1:1", DuplicateEndpoint, "for a server and a trainer"),
        ("--servers 127.0.0.1:1,127.0.0.2:1 --trainers 127.0.0.1", SeveralAmongNodes, "--host 127.0.0.1"),
        (
            "--host 127.0.0.3 --servers 127.0.0.1:1,127.0.0.2:1 --trainers 127.0.0.1",
            NotAmongNodes,
            "addresses: `127.0.0.3`",
        ),
        ("--nnodes 2 --servers 127.0.0.1:1 --trainers 127.0.0.1", Contradiction, "--nnodes 2 and --servers 127.0.0.1 "),
        ("--nnodes 1:2 --servers 127.0.0.1:1 --trainers 127.0.0.1", Contradiction, "--nnodes 1:2 and .* on one node"),
        ("--start_port 7000 --servers 127.0.0.1:1 --trainers 127.0.0.1", Contradiction, "both set the workers' ports"),
        (
            f"--host 127.0.0.1 {TWO_HOSTS} --gloo_port 65535",
            BadValue,
            "for --gloo_port: expected a port that is followed by a free port",
        ),
    ],
)
def test_counts_and_lists_that_make_no_job_are_refused(cast, words, error, message):
    with pytest.raises(error) as raised:
        cast(words)
    assert re.search(message, f"{raised.value.message} {raised.value.hint}")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (f"{LISTS} --server_num 1", "server=1 trainer=1"),
        (f"{LISTS},127.0.0.1:3 --server_num=1 --worker_num=2", "server=1 trainer=2"),
        (f"{LISTS} --coordinators 127.0.0.1:3 --coordinator_num 1", "server=1 coordinator=1 trainer=1"),
        (f"{LISTS} --heter_workers 127.0.0.1:3,127.0.0.1:4 --heter_worker_num 2", "server=1 heter=2 trainer=1"),
        (
            f"{LISTS} --heter_workers '127.0.0.1:3;127.0.0.1:4' --heter_worker_num '1; 1'",
            "server=1 heter=1 heter=1 trainer=1",
        ),
        # All that are listed, as in Paddle, or those of this node.
        (f"--host 127.0.0.1 {TWO_HOSTS} --server_num 2", "server=1 trainer=1"),
        (f"--host 127.0.0.1 {TWO_HOSTS} --server_num 1", "server=1 trainer=1"),
        (f"--host 127.0.0.2 {TWO_HOSTS} --server_num 1 --trainer_num 0", "server=1 trainer=0"),
    ],
)
def test_counts_that_agree_with_lists_are_accepted(cast, words, expected):
    assert counts(cast(words)) == expected


def test_a_count_contradicts_a_list_of_the_same_precedence_even_if_neither_is_used(cast):
    environ = {"PADDLE_SERVER_NUM": "2", "PADDLE_SERVERS_ENDPOINTS": "127.0.0.1:1"}

    with pytest.raises(Contradiction, match="PADDLE_SERVER_NUM 2 and PADDLE_SERVERS_ENDPOINTS"):
        cast("--trainer_num 2", **environ)


@pytest.mark.parametrize("environ", [{"PADDLE_NPROC_PER_NODE": "2"}, {"PET_NPROC_PER_NODE": "auto"}])
def test_a_variable_that_counts_workers_is_not_meant_for_roles(cast, environ):
    assert counts(cast("--server_num 1", **environ)) == "server=1 trainer=1"


def test_heterogeneous_workers_in_variables_are_not_meant_for_a_plain_ps_job(cast):
    environ = {"FLOTA_HETER_DEVICES": "cpu;gpu", "FLOTA_HETER_WORKER_NUM": "1;1"}

    assert counts(cast("--run_mode ps", **environ)) == "server=1 trainer=1"
    lists = "--servers 127.0.0.1:1 --trainers 127.0.0.1:2"
    assert counts(cast(f"--run_mode ps {lists}", FLOTA_HETER_WORKERS="127.0.0.1:3")) == "server=1 trainer=1"


def test_numbers_on_the_command_line_count_more_than_lists_in_variables(cast):
    lists = {"PADDLE_SERVERS_ENDPOINTS": "127.0.0.1:1", "PADDLE_TRAINERS_ENDPOINTS": "127.0.0.1:2"}

    assert cast("--server_num 2 --trainer_num 3", **lists).hosts == ()
    assert counts(cast("--server_num 2", **lists)) == "server=2 trainer=1"
    assert cast("", **lists).hosts == ("127.0.0.1",)
    listed = "--servers 127.0.0.1:1 --trainers 127.0.0.1:2,127.0.0.1:3"
    assert counts(cast(listed, PADDLE_SERVER_NUM="4", PADDLE_TRAINER_NUM="4")) == "server=1 trainer=2"
    assert counts(cast(listed, PADDLE_START_PORT="7000")) == "server=1 trainer=2"
    assert cast(f"{listed} --gloo_port 65535").gloo_port == 65535, "one node meets nobody"


@pytest.mark.parametrize(
    ("words", "port"),
    [
        ("--server_num 1", None),
        ("--server_num 1 --gloo_port 7000", 7000),
        ("--server_num 1 --http_port 7000", 7000),
        ("--servers 127.0.0.1:1 --trainers 127.0.0.1", 6767),
        ("--servers 127.0.0.1:1 --trainers 127.0.0.1 --gloo_port 7000", 7000),
    ],
)
def test_gloos_port_is_6767_for_lists_and_otherwise_any_free_one(cast, words, port):
    assert cast(words).gloo_port == port


# Lists.


def test_a_list_is_of_the_whole_job_and_this_node_has_what_is_at_its_address(cast):
    made = cast("--host 127.0.0.3 --servers 127.0.0.2:1,127.0.0.3:1 --trainers 127.0.0.3:2,127.0.0.2:2,127.0.0.3:3")

    servers, trainers = made.roles
    assert made.hosts == ("127.0.0.2", "127.0.0.3")
    assert made.flag == "--servers"
    assert (servers.endpoints, servers.own, servers.lead) == (("127.0.0.2:1", "127.0.0.3:1"), (1,), 0)
    assert trainers.endpoints == ("127.0.0.3:2", "127.0.0.2:2", "127.0.0.3:3")
    assert (trainers.own, trainers.lead) == ((0, 2), 1), "ranks are as listed, though the hosts take turns"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (f"--host 127.0.0.2 --nnodes 2 {TWO_HOSTS}:65535", "server=1 trainer=0"),
        ("--nnodes 1 --servers 127.0.0.1:1 --trainers 127.0.0.1", "server=1 trainer=1"),
        # An address is matched as a whole.
        ("--host 127.0.0.1 --servers 127.0.0.1:1,127.0.0.10:1 --trainers 127.0.0.10:2", "server=1 trainer=0"),
        ("--host 127.0.0.2 --servers 127.0.0.1:1 --trainers 127.0.0.2:2", "server=0 trainer=1"),
        (
            "--host 127.0.0.3 --servers 127.0.0.1:1 --trainers 127.0.0.2:2 --coordinators 127.0.0.3:3",
            "server=0 coordinator=1 trainer=0",
        ),
    ],
)
def test_a_node_has_those_that_are_listed_at_its_address(cast, words, expected):
    assert counts(cast(words)) == expected


@pytest.mark.parametrize(
    ("words", "ports"),
    [
        ("--servers 127.0.0.1:1 --trainers 127.0.0.1,127.0.0.1", "6171 6172"),
        ("--servers 127.0.0.1:1,127.0.0.1:2 --trainers '127.0.0.1, 127.0.0.1:7,127.0.0.1,'", "6172 7 6174"),
        # What somebody has is not given to another.
        ("--servers 127.0.0.1:6171 --trainers 127.0.0.1,127.0.0.1", "6172 6173"),
        ("--servers 127.0.0.1:1 --trainers 127.0.0.1,127.0.0.1:6171", "6172 6171"),
        ("--servers 127.0.0.1:1 --trainers 127.0.0.1 --heter_workers 127.0.0.1:6171", "6172"),
        ("--servers 127.0.0.1:6171 --trainers 127.0.0.1,127.0.0.1:6173,127.0.0.1", "6172 6173 6174"),
    ],
)
def test_trainers_without_ports_get_the_same_ones_on_every_node(cast, words, ports):
    trainers = cast(words).roles[-1]

    assert trainers.endpoints == tuple(f"127.0.0.1:{port}" for port in ports.split())


def test_addresses_of_version_6(cast):
    made = cast("--servers [::1]:6170 --trainers ::1,[::1],[::1]:9")

    assert made.hosts == ("::1",)
    assert made.roles[0].endpoints == ("[::1]:6170",)
    assert made.roles[1].endpoints == ("[::1]:6171", "[::1]:6172", "[::1]:9")
    with pytest.raises(NotAmongNodes, match="--servers `fd00::1`"):
        cast("--servers [fd00::1]:6170 --trainers [fd00::1]")


def test_stages_of_heterogeneous_workers(cast):
    lists = "--servers 127.0.0.1:1 --trainers 127.0.0.1:2"

    made = cast(f"--host 127.0.0.1 {lists} --heter_workers '127.0.0.1:3,127.0.0.2:3;127.0.0.1:4;;'")

    heter = [role for role in made.roles if role.name == "heter"]
    assert [(role.stage, role.endpoints) for role in heter] == [
        (2, ("127.0.0.1:3", "127.0.0.2:3")),
        (3, ("127.0.0.1:4",)),
    ]
    assert [role.name for role in made.roles] == ["server", "heter", "heter", "trainer"]


# Devices.


def seen(role: Role) -> tuple[str, str, bool]:
    return role.devices.kind, ",".join(role.devices.chosen), role.private


def test_trainers_have_one_device_each_and_serving_roles_have_none(cast):
    made = cast("--server_num 1 --coordinator_num 1 --trainer_num 2", CUDA_VISIBLE_DEVICES="4,5")

    assert {role.name: seen(role) for role in made.roles} == {
        "server": ("cpu", "", False),
        "coordinator": ("cpu", "", False),
        "trainer": ("gpu", "4,5", True),
    }
    assert made.roles[0].devices.narrowed, "they are hidden from it"


@pytest.mark.parametrize(
    ("words", "environ", "kinds"),
    [
        ("--heter_worker_num 1", {"CUDA_VISIBLE_DEVICES": "0"}, ["gpu"]),
        ("--heter_worker_num 1", {"XPU_VISIBLE_DEVICES": "0"}, ["xpu"]),
        ("--heter_worker_num 1", {}, ["cpu"]),
        ("--heter_worker_num 1 --devices cpu", {"CUDA_VISIBLE_DEVICES": "0"}, ["cpu"]),
        ("--heter_worker_num 1 --heter_devices cpu", {"CUDA_VISIBLE_DEVICES": "0"}, ["cpu"]),
        ("--heter_worker_num '1;1' --heter_devices gpu", {"CUDA_VISIBLE_DEVICES": "0"}, ["gpu", "gpu"]),
        ("--heter_worker_num '1;1' --heter_devices 'gpu; cpu'", {"CUDA_VISIBLE_DEVICES": "0"}, ["gpu", "cpu"]),
        ("--heter_worker_num '0;1' --heter_devices 'xpu;cpu'", {}, ["xpu", "cpu"]),  # the first is on other nodes
    ],
)
def test_what_heterogeneous_workers_compute_on(cast, words, environ, kinds):
    made = cast(f"--trainer_num 1 {words}", **environ)

    heter = [role for role in made.roles if role.name == "heter"]
    assert [role.device_kind for role in heter] == kinds
    assert [role.private for role in heter] == [kind != "cpu" for kind in kinds]
    assert [bool(role.devices.chosen) for role in heter if role.workers] == [
        role.device_kind != "cpu" for role in heter if role.workers
    ]
    assert {role.device_kind for role in made.roles if role.name != "heter"} == {""}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--heter_worker_num 1 --heter_devices xpu", NoDevices),
        ("--heter_worker_num '1;1' --heter_devices 'cpu;xpu'", NoDevices),
        ("--heter_worker_num 1 --heter_devices 'gpu;cpu'", BadValue),
        ("--heter_worker_num '1;1' --heter_devices 'gpu;'", BadValue),
        ("--heter_worker_num 1 --heter_devices ''", BadValue),
    ],
)
def test_devices_that_are_not_there_or_do_not_fit_the_stages_are_refused(cast, words, error):
    with pytest.raises(error, match="--heter_devices"):
        cast(f"--trainer_num 1 {words}", CUDA_VISIBLE_DEVICES="0")


# The table itself.


def test_serving_roles_start_first_and_otherwise_the_order_stays(cast):
    made = cast("--trainer_num 1 --heter_worker_num 1 --coordinator_num 1 --server_num 1")

    assert [role.name for role in made.roles] == ["server", "coordinator", "heter", "trainer"]
    assert [role.serves for role in made.roles] == [True, True, True, False]
    odd = [Role("b", 1), Role("z", 1, serves=True), Role("a", 1), Role("y", 1, serves=True)]
    assert [role.name for role in in_start_order(odd)] == ["z", "y", "b", "a"]


def test_trainers_are_called_by_their_rank_and_log_as_workers():
    assert [log_stem(name) for name in ("trainer", "server", "data")] == ["workerlog", "serverlog", "datalog"]
    assert (label("trainer", 3), label("server", 3)) == ("rank 3", "server 3")


# Roles of the user's own: tables of flota.toml, counts of --roles.


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """What a flota.toml, a command line and an environment ask for, in a directory with two scripts."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "serve.py"):
        (tmp_path / name).touch()

    def make(toml: str = "", words: str = "train.py", file: str = "flota.toml", **environ: str) -> JobSpec:
        (tmp_path / file).write_text(toml)
        line = parse(split(words))
        environ = {"CUDA_VISIBLE_DEVICES": "", **environ}
        return make_spec(Request(line, gather(line.given, environ, str(tmp_path)), environ, "python"))

    return make


FULL = """
[roles.trainer]
count = 2
script = "train.py"
args = ["--lr", 0.1, "--fast", true, "--epochs", 3]
devices = "1"
env = { A = "a", N = 3, B = false }
serves = false
on_failure = "end"

[roles.cache]
serves = true
on_failure = "ignore"
script = "serve.py"
"""


def test_every_key_of_a_table(spec):
    made = spec(FULL, words="", CUDA_VISIBLE_DEVICES="0,1")

    cache, trainer = made.roles
    assert made.mode == MIXED
    assert made.workers == 3
    assert (trainer.name, trainer.workers, trainer.serves, trainer.on_failure) == ("trainer", 2, False, END)
    assert trainer.command.target == "train.py"
    assert trainer.command.args == ("--lr", "0.1", "--fast", "true", "--epochs", "3")
    assert trainer.devices.chosen == ("1",)
    assert trainer.env == (("A", "a"), ("N", "3"), ("B", "false"))
    assert (cache.name, cache.workers, cache.serves, cache.on_failure) == ("cache", 1, True, IGNORE)
    assert (cache.command.target, cache.command.args) == ("serve.py", ())


def test_every_default_of_a_table(spec):
    (role,) = spec("[roles.trainer]", words="train.py --own").roles

    assert (role.workers, role.serves, role.on_failure, role.command, role.env) == (1, False, RESTART, None, ())


def test_a_role_may_have_no_worker_here_or_very_many(spec):
    assert counts(spec("[roles.a]\ncount = 0\n[roles.b]\ncount = 10000")) == "a=0 b=10000"
    assert counts(spec("", "--roles a=0,b=10000 train.py")) == "a=0 b=10000"


def test_roles_that_serve_by_their_name(spec):
    names = ("evaluator", "server", "scheduler", "worker", "ps", "coordinator", "chief")
    made = spec("".join(f"[roles.{name}]\n" for name in names))

    assert [role.name for role in made.roles if role.serves] == ["server", "scheduler", "ps", "coordinator"]
    assert [role.name for role in made.roles if not role.serves] == ["evaluator", "worker", "chief"]
    assert made.roles[made.main].name == "evaluator"


def test_a_table_says_whether_a_server_serves(spec):
    assert [role.serves for role in spec("[roles.server]\nserves = false").roles] == [False]


@pytest.mark.parametrize(
    ("toml", "problem", "error"),
    [
        ("count = true", "`roles.a.count` is `True`, not a number", BadConfigFile),
        ("count = 1.5", "`roles.a.count` is `1.5`, not a number", BadConfigFile),
        ("count = '2'", "`roles.a.count` is `2`, not a number", BadConfigFile),
        ("count = -1", "invalid value `-1` for roles.a.count: expected a number from 0 to 10000", BadValue),
        ("count = 10001", "invalid value `10001` for roles.a.count: expected a number from 0 to 10000", BadValue),
        ("script = 3", "`roles.a.script` is `3`, not a path", BadConfigFile),
        ("args = 'a b'", "`roles.a.args` is `a b`, not a list of words", BadConfigFile),
        ("args = [['a']]", "`roles.a.args` contains ", BadConfigFile),
        ('args = ["a\\u0000b"]', "`roles.a.args` contains ", BadConfigFile),
        ("devices = 0", "`roles.a.devices` is `0`, not ids in quotes", BadConfigFile),
        ("devices = '7'", "unknown device `7`", UnknownDevice),
        ("env = ['A=1']", "`roles.a.env` is ", BadConfigFile),
        ("env = { A = [1] }", "`roles.a.env.A` contains ", BadConfigFile),
        ("env = { A = { B = 1 } }", "`roles.a.env.A` contains ", BadConfigFile),
        ('env = { A = "a\\u0000b" }', "`roles.a.env.A` contains ", BadConfigFile),
        ('env = { "A=B" = "c" }', "which is not a variable name", BadConfigFile),
        ('env = { "" = "c" }', "which is not a variable name", BadConfigFile),
        ('env = { "A\\u0000" = "c" }', "which is not a variable name", BadConfigFile),
        ("serves = 1", "`roles.a.serves` is `1`, not true or false", BadConfigFile),
        ("serves = 'yes'", "`roles.a.serves` is `yes`, not true or false", BadConfigFile),
        ("on_failure = 1", "`roles.a.on_failure` is `1`, not one of restart, end, ignore", BadConfigFile),
        ("on_failure = 'die'", "`roles.a.on_failure` is `die`, not one of restart, end, ignore", BadConfigFile),
        ("cuont = 1", "unknown key `roles.a.cuont` in flota.toml", UnknownKey),
        ("nproc_per_node = 1", "unknown key `roles.a.nproc_per_node`", UnknownKey),
    ],
)
def test_a_wrong_table_is_refused_by_key_and_value(spec, toml, problem, error):
    with pytest.raises(error) as raised:
        spec(f"[roles.a]\n{toml}")

    assert problem in raised.value.message
    assert raised.value.exit_code == 2


def test_a_wrong_key_is_answered_with_the_nearest(spec):
    with pytest.raises(UnknownKey) as raised:
        spec("[roles.a]\nonfailure = 'end'")

    assert raised.value.hint == "did you mean `on_failure`?"


@pytest.mark.parametrize(
    ("toml", "words", "error", "problem"),
    [
        ("roles = 'a=2'", "train.py", BadConfigFile, "`roles` is not a table of tables"),
        ("[roles]\na = 2", "train.py", BadConfigFile, "`roles.a` is not a table"),
        ("[roles.'a/b']", "train.py", BadValue, "`a/b` for roles: expected a name of letters and digits"),
        ("", "--roles ../x=1 train.py", BadValue, "`../x` for roles: expected a name of letters and digits"),
        ("", "--roles 'é=1' train.py", BadValue, "`é` for roles: expected a name of letters and digits"),
        ("", "--roles a=1,a=2 train.py", BadValue, "for --roles: expected each role once"),
        ("", "--roles a=10001 train.py", BadValue, "a count from 0 to 10000"),
        ("", "--roles a train.py", BadValue, "`a` for --roles: expected roles and their counts"),
        ("", "--roles a=-1 train.py", BadValue, "`a=-1` for --roles: expected roles and their counts"),
        ("", "--roles =1 train.py", BadValue, "`=1` for --roles: expected roles and their counts"),
        ("", "--roles a=0,b=0 train.py", NoWorkersHere, "would not start any workers"),
        ("[roles.trainer]\n[roles.worker]", "train.py", RolesCollide, "would write to the same log workerlog.N"),
        ("[roles.a-b]\n[roles.A_b]", "train.py", RolesCollide, "would use the same variable FLOTA_ENDPOINTS_A_B"),
        ("[roles.a]", "--nproc_per_node 2 train.py", Contradiction, "--nproc_per_node and `roles` in flota.toml"),
        ("", "--roles a=1 --nproc_per_node 2 train.py", Contradiction, "--nproc_per_node and --roles"),
        ("", "--roles a=1,b=1 --interactive train.py", Contradiction, "--interactive and --roles"),
        ("[roles.a]", "--server_num 1 train.py", Contradiction, "`roles` in flota.toml and --server_num"),
        ("[roles.a]\nscript = 'nope.py'", "", MissingScript, "nope.py"),
        ("[roles.a]\nscript = 'serve.py'", "train.py", UnusedScript, "`train.py` would not be run: every role in "),
        ("[roles.a]\nscript = 'serve.py'\n[roles.b]", "", NoScript, "no script given"),
        ("[roles.a]\nscript = 'serve.py'\n[roles.b]\nargs = ['x']", "", NoScript, "no script given"),
    ],
)
def test_an_impossible_job_is_refused(spec, toml, words, error, problem):
    with pytest.raises(error) as raised:
        spec(toml, words)

    assert problem in raised.value.message


def test_counts_of_the_command_line_come_before_the_tables(spec):
    made = spec("[roles.trainer]\ncount = 2\n[roles.evaluator]", "--roles trainer=3,data=2 train.py")

    assert counts(made) == "trainer=3 evaluator=1 data=2"
    assert counts(spec("[roles.trainer]\ncount = 2", FLOTA_ROLES="trainer=1")) == "trainer=1"
    assert counts(spec("[roles.trainer]\n[roles.evaluator]", "--roles trainer=0 train.py")) == "trainer=0 evaluator=1"


def test_the_mode_on_the_command_line_counts_more_than_the_file(spec):
    made = spec("[roles.a]", "--run_mode collective --nproc_per_node 2 train.py")
    assert (made.mode, made.roles, made.workers) == (COLLECTIVE, (), 2)

    made = spec("[roles.a]", "--run_mode ps train.py")
    assert (made.mode, counts(made)) == (PS, "server=1 trainer=1")


def test_tables_in_pyproject(spec, tmp_path):
    made = spec("[tool.flota.roles.trainer]\ncount = 2\n[tool.flota.roles.server]", file="pyproject.toml")

    assert counts(made) == "server=1 trainer=2"


def test_a_role_has_the_jobs_script_with_arguments_of_its_own(spec):
    made = spec("[roles.trainer]\n[roles.data]\nargs = ['--data']", "train.py --lr")

    assert made.command.args == ("--lr",)
    assert made.roles[0].command is None
    assert (made.roles[1].command.target, made.roles[1].command.args) == ("train.py", ("--data",))


def test_devices_of_roles(spec):
    toml = """
    [roles.server]
    [roles.trainer]
    [roles.evaluator]
    [roles.data]
    devices = "all"
    [roles.cache]
    devices = "none"
    [roles.one]
    devices = "3"
    """
    made = spec(toml, "--devices 1,2 train.py", CUDA_VISIBLE_DEVICES="0,1,2,3")

    assert {role.name: role.devices.chosen for role in made.roles} == {
        "server": (),
        "trainer": ("1", "2"),  # the first that serves nobody has the job's
        "evaluator": (),
        "data": ("1", "2"),
        "cache": (),
        "one": ("3",),
    }
    assert not any(role.private for role in made.roles)
