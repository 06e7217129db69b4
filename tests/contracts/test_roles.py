"""What workers of jobs with roles get, against what Paddle's launchers gave in the same case (dumps/, recorded).

Every launcher picks ports of its own, so values are compared by what they mean: each endpoint stands for who has it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.contracts.test_dumps import DUMPS
from tests.store.servers import free_ports

# Where flota differs on purpose, and why.
DIFFERENT = {
    "CUSTOM_DEVICE_ROOT": "leaks from importing paddle in the launcher",
    "OMP_NUM_THREADS": "on CPU the CPUs are shared out instead of one each",
    "PADDLE_BACKUP_ENV_PATH": "only when a value is too long: it would hold the user's environment",
    "PADDLE_GLOO_FS_PATH": "in the log directory instead of a temporary one that is already gone; gloo meets over HTTP",
    "POD_NAME": "the node's name instead of six random letters",
    "CUDA_VISIBLE_DEVICES": "the old launcher names device 0 where there is none; flota leaves the variable alone",
    "XPU_VISIBLE_DEVICES": "as CUDA_VISIBLE_DEVICES",
    "FLAGS_selected_gpus": "as CUDA_VISIBLE_DEVICES",
    "FLAGS_selected_xpus": "as CUDA_VISIBLE_DEVICES",
}
MORE = {"PADDLE_COORDINATOR_ENDPOINTS": "the old launcher keeps it from heterogeneous workers, for no reason"}
GLOO = ["--with_gloo", "1"]  # the new launcher's default; flota's is 0, as the documents say
COUNTED = {
    "paddle_ps_1node_counts": ["--server_num", 1, "--trainer_num", 2, *GLOO],
    "paddle_legacy_ps_1node_counts": ["--server_num", 1, "--worker_num", 2],
    "paddle_legacy_ps_coordinator": ["--server_num", 1, "--worker_num", 1, "--coordinator_num", 1],
    "paddle_legacy_ps_heter_counts": "--server_num 1 --worker_num 2 --heter_worker_num 2 --heter_devices cpu".split(),
    "paddle_rpc_1node": "--master 127.0.0.1:1 --nnodes 1 --nproc_per_node 2 --rank 0 --run_mode rpc".split(),
}
LISTED = {
    "paddle_ps_1node_endpoints": [
        *("--servers", "127.0.0.1:16170,127.0.0.1:16171"),
        *("--trainers", "127.0.0.1:16172,127.0.0.1:16173"),
        *GLOO,
    ],
    "paddle_ps_2nodes_endpoints_second_node": [
        *("--host", "127.0.0.3"),
        *("--servers", "127.0.0.2:16170,127.0.0.3:16170"),
        *("--trainers", "127.0.0.2:16172,127.0.0.2:16173,127.0.0.3:16172"),
        *GLOO,
    ],
    "paddle_legacy_ps_heter_endpoints_2_stages": [
        *("--servers", "127.0.0.1:16270"),
        *("--workers", "127.0.0.1:16271,127.0.0.1:16272"),
        *("--heter_workers", "127.0.0.1:16273;127.0.0.1:16274"),
        *("--heter_devices", "cpu;cpu"),
    ],
}
TWO_NODES = {
    "paddle_ps_2nodes_master": ["--server_num", 1, "--trainer_num", 2, *GLOO],
    "paddle_rpc_2nodes": ["--nproc_per_node", 2, "--run_mode", "rpc"],
}
LISTS = {
    "server": "PADDLE_PSERVERS_IP_PORT_LIST",
    "trainer": "PADDLE_TRAINER_ENDPOINTS",
    "heter": "PADDLE_ALL_HETER_TRAINER_IP_PORT_LIST",
    "coordinator": "PADDLE_COORDINATOR_ENDPOINTS",
    "gloo": "PADDLE_GLOO_HTTP_ENDPOINT",
    "master": "PADDLE_MASTER_ENDPOINT",
}
STEMS = {"server": "serverlog", "heter": "heterlog", "coordinator": "coordinatorlog"}


def recorded(name: str) -> list[dict]:
    return json.loads((DUMPS / f"{name}.json").read_text())["workers"]


def names_of(envs: list[dict]) -> dict[str, str]:
    """Each endpoint of a job's workers by who has it."""
    names = {}
    for env in envs:
        for who, variable in LISTS.items():
            for number, endpoint in enumerate(filter(None, env.get(variable, "").split(","))):
                assert names.setdefault(endpoint, f"{who} {number}") == f"{who} {number}"
        if "PADDLE_WORKER_ENDPOINT" in env:
            names[env["PADDLE_WORKER_ENDPOINT"]] = f"trainer {env['PADDLE_TRAINER_ID']}"
    return names


def meanings(envs: list[dict], *, exact: bool) -> dict[str, dict[str, str]]:
    """Each worker's variables by its name, with names for endpoints; `exact`: with the endpoints, too."""
    names = names_of(envs)

    def meaning(variable: str, value: str) -> str:
        parts = value.split(",")
        if not any(part in names for part in parts):
            return value
        # gloo's port is never asked for in these cases: it has a test of its own
        shown = [part if exact and variable != LISTS["gloo"] else part.rpartition(":")[0] for part in parts]
        return ",".join(f"{names[part]} at {text}" for part, text in zip(parts, shown, strict=True))

    found = {}
    for env in envs:
        own = env.get("PADDLE_WORKER_ENDPOINT") or f"{env['POD_IP']}:{env['PADDLE_PORT']}"
        found[names[own]] = {variable: meaning(variable, value) for variable, value in env.items()}
        if not exact:
            found[names[own]]["PADDLE_PORT"] = names[own]
    assert len(found) == len(envs), "no two workers share an endpoint"
    return found


def compare(name: str, own: list[dict], logs: list[str], *, exact: bool = False) -> None:
    given = meanings([worker["set_or_changed"] for worker in recorded(name)], exact=exact)
    got = meanings(own, exact=exact)
    for who, expected in given.items():
        for variable, value in expected.items():
            if variable not in DIFFERENT:
                assert got[who].get(variable, "(unset)") == value, (who, variable)
        for variable in {one for env in given.values() for one in env} - set(expected) - set(DIFFERENT) - set(MORE):
            assert variable not in got[who], f"{variable} is not for {who}"
    # The old launchers count logs on each node; here a log's number is its worker's, in the whole job.
    expected_logs = {f"{STEMS.get(who.split()[0], 'workerlog')}.{who.split()[1]}" for who in given}
    assert expected_logs <= {Path(log).name for log in logs}
    stems = {Path(worker["stdout"]).stem for worker in recorded(name)}
    assert stems == {log.partition(".")[0] for log in expected_logs}


def dumped(flota) -> tuple[list[dict], list[str]]:
    dumps = [json.loads(file.read_text()) for file in sorted(flota.directory.glob("dump.*.json"))]
    envs = [
        {name: value.replace(str(flota.directory), "/JOB") for name, value in dump["env"].items()} for dump in dumps
    ]
    for dump in dumps:
        assert dump["argv"][1:] == []
        assert dump["sid"] == dump["pid"], "every worker leads a session of its own, whatever its role"
    return envs, [dump["stdout"] for dump in dumps]


@pytest.mark.parametrize(("name", "flags"), COUNTED.items(), ids=COUNTED)
def test_workers_by_count_get_what_paddles_launcher_gives(flota, name, flags):
    result = flota.run(*flags, "dumps_env.py")

    assert result.returncode == 0, result.stderr
    envs, logs = dumped(flota)
    compare(name, envs, logs)


def planned(flota, *flags: object, env: dict[str, str] | None = None) -> list[dict]:
    (flota.directory / "train.py").touch()
    result = flota.run("--dry-run", "--json", *flags, "train.py", env=env)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["workers"]


@pytest.mark.parametrize(("name", "flags"), LISTED.items(), ids=LISTED)
def test_workers_by_list_get_what_paddles_launcher_gives(flota, name, flags):
    workers = planned(flota, *flags)

    envs = [
        {name: value.replace(str(flota.directory), "/JOB") for name, value in worker["env"].items()}
        for worker in workers
    ]
    compare(name, envs, [log for worker in workers for log in worker["logs"]], exact=True)


@pytest.mark.parametrize(("name", "flags"), TWO_NODES.items(), ids=TWO_NODES)
def test_workers_of_two_nodes_get_what_paddles_launcher_gives(flota, name, flags):
    (port,) = free_ports(1)
    master = ["--master", f"127.0.0.1:{port}", "--nnodes", 2]

    nodes = [flota.start(*master, "--rank", rank, *flags, "dumps_env.py") for rank in (0, 1)]

    assert [node.wait(60) for node in nodes] == [0, 0], [node.output() for node in nodes]
    envs, logs = dumped(flota)
    compare(name, envs, logs)
    assert len(envs) == len(recorded(name))


def test_every_difference_has_a_reason_and_every_dump_a_case():
    cases = {**COUNTED, **LISTED, **TWO_NODES}
    recorded_names = {variable for name in cases for worker in recorded(name) for variable in worker["set_or_changed"]}

    assert set(DIFFERENT) | set(MORE) <= recorded_names
    assert set(cases) == {file.stem for file in DUMPS.glob("*.json") if re.search("_(ps|rpc)_", file.stem)}


def test_a_coordinator_gets_its_role(flota):
    """Paddle's launcher kills it before it can dump anything."""
    env = next(one["env"] for one in planned(flota, "--coordinator_num", 2) if one["role"] == "coordinator")

    assert {name: env[name] for name in ("TRAINING_ROLE", "PADDLE_COORDINATOR_NUM", "PADDLE_TRAINER_ID")} == {
        "TRAINING_ROLE": "COORDINATOR",
        "PADDLE_COORDINATOR_NUM": "2",
        "PADDLE_TRAINER_ID": "0",
    }


@pytest.mark.parametrize(
    ("flags", "endpoint"),
    [
        (["--server_num", 1], "127.0.0.1:<free>"),
        (["--servers", "127.0.0.1:16170", "--trainers", "127.0.0.1", "--gloo_port", 7001], "127.0.0.1:7001"),
        (["--servers", "10.9.9.9:1", "--trainers", "127.0.0.1,127.0.0.1:7"], "10.9.9.9:6767"),
    ],
)
def test_gloo_uses_one_port_of_the_first_server_for_all(flota, flags, endpoint):
    workers = planned(flota, *flags)

    assert {worker["env"]["PADDLE_GLOO_HTTP_ENDPOINT"] for worker in workers} == {endpoint}
    assert {worker["env"]["PADDLE_GLOO_FS_PATH"] for worker in workers} == {f"{flota.directory}/log/gloo"}


@pytest.mark.parametrize(("flags", "gloo"), [([], "0"), (["--with_gloo", 2], "2")])
def test_gloo_is_off_unless_asked_for(flota, flags, gloo):
    assert {worker["env"]["PADDLE_WITH_GLOO"] for worker in planned(flota, "--run_mode", "ps", *flags)} == {gloo}
