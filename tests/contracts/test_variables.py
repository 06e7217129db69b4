"""What workers get beyond the recorded dumps: flota's own variables, JAX, TensorFlow, devices, threads, long lists."""

from __future__ import annotations

import json
import os
import stat
import subprocess

import pytest

from flota.frameworks import add_variables
from flota.frameworks.paddle import LONGEST_LIST
from flota.host.ports import hold_free, port_of, release
from flota.job.plan import plan_workers
from flota.job.roster import Ports, Roster, Seat
from flota.job.spec import Command, JobSpec, LogSpec
from tests.launching import COMMAND

ALL = ("torch", "paddle", "jax", "tensorflow")


def env_of(flota, *flags, rank=0, env=None):
    result = flota.run(*flags, "dumps_env.py", env=env)
    assert result.returncode == 0, result.stderr
    return json.loads((flota.directory / f"dump.{rank}.json").read_text())["env"]


def roster(*workers, address="10.0.0.{}"):
    seats = [
        Seat(
            "",
            f"host{number}",
            address.format(number),
            Ports(tuple(str(6000 + port) for port in range(count)), "1", "2", "3"),
        )
        for number, count in enumerate(workers)
    ]
    return Roster(0, 0, tuple(seats))


def spec(frameworks=ALL, **changes):
    return JobSpec(Command("script", "train.py", (), "python"), 2, LogSpec("/log"), frameworks=frameworks, **changes)


RUN_ID = "TORCHELASTIC_RUN_ID"
TELLS_RUN_ID = """
import os, sys, time
run_id, rank = os.environ["TORCHELASTIC_RUN_ID"], int(os.environ["RANK"])
print(run_id, os.environ["FLOTA_JOB_ID"], flush=True)
if os.environ["FLOTA_ROUND"] == "0":  # both have told it before one fails and the other is stopped
    told = [f"told.{run_id.replace('/', '_')}.{number}" for number in range(2)]
    open(told[rank], "w").close()
    while not all(map(os.path.exists, told)):
        time.sleep(0.01)
    sys.exit(1)
"""


def test_the_run_id_is_new_in_each_run_and_the_same_for_all_ranks_and_rounds(flota):
    (flota.directory / "tells.py").write_text(TELLS_RUN_ID)
    words = ("--nproc_per_node", 2, "--max_restart", 1, "--log_overwrite", "tells.py")

    seen = []
    for _ in range(2):
        assert flota.run(*words).returncode == 0
        lines = {line for rank in range(2) for line in flota.log(rank).splitlines()}
        assert len(lines) == 1, lines
        seen += lines

    assert seen[0] != seen[1]
    assert all(line.endswith(" default") for line in seen)


def test_the_run_id_is_the_job_id_if_there_is_one(flota):
    assert env_of(flota, "--job_id", "a/b")[RUN_ID] == "a/b"
    assert env_of(flota, "--rdzv-id", "mine")[RUN_ID] == "mine"
    assert env_of(flota, env={"PET_RDZV_ID": "theirs"})[RUN_ID] == "theirs"


@pytest.mark.parametrize(("flags", "job_id"), [([], None), (["--job_id", "a/b"], "a/b")])
def test_all_nodes_have_the_same_run_id(flota, flags, job_id):
    (flota.directory / "tells.py").write_text(TELLS_RUN_ID)
    (holder,) = hold_free(1, "127.0.0.1")
    master = f"127.0.0.1:{port_of(holder)}"
    release([holder])
    words = ("--nnodes", 2, "--master", master, "--max_restart", 1, "--log_dir", "runs/{time}", *flags, "tells.py")

    nodes = [flota.start(*words) for _ in range(2)]

    ends = [node.output() for node in nodes]
    assert [node.process.returncode for node in nodes] == [0, 0], ends
    lines = [flota.log(rank, "runs/latest").splitlines() for rank in range(2)]
    assert [len(one) for one in lines] == [2, 2] and len({*lines[0], *lines[1]}) == 1, lines
    run_id, name = lines[0][0].split()
    assert (run_id, name) == (job_id, job_id) if job_id else (len(run_id), name) == (16, "default")


def test_flotas_own_variables(flota):
    env = env_of(flota, "--nproc_per_node", 2, "--job_id", "mine", rank=1)

    own = {
        name: env[f"FLOTA_{name}"]
        for name in "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE NODE_RANK NODES ROLE ROLE_RANK ATTEMPT ROUND JOB_ID DEVICE LOG_DIR".split()
    }
    assert own == {
        "RANK": "1",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "0",
        "NODES": "1",
        "ROLE": "trainer",
        "ROLE_RANK": "1",
        "ATTEMPT": "0",
        "ROUND": "0",
        "JOB_ID": "mine",
        "DEVICE": "cpu",
        "LOG_DIR": str(flota.directory / "log"),
    }
    assert env["FLOTA_MASTER"] == f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}"
    assert env["NODE_RANK"] == "0"
    assert {"RANK", "PADDLE_TRAINER_ID", "TF_CONFIG", "FLOTA_RANK"} <= set(env["FLOTA_GIVEN"].split(","))


def test_the_token_is_not_given_to_workers(flota):
    assert "FLOTA_TOKEN" not in env_of(flota, env={"FLOTA_TOKEN": "secret"})


@pytest.mark.parametrize("framework", ALL)
def test_framework_narrows(flota, framework):
    env = env_of(flota, "--framework", framework)

    marks = {
        "torch": "MASTER_PORT",
        "paddle": "PADDLE_MASTER",
        "jax": "JAX_COORDINATOR_ADDRESS",
        "tensorflow": "TF_CONFIG",
    }
    assert {name for name, mark in marks.items() if mark in env} == {framework}


def test_env_adds_variables(flota):
    env = env_of(flota, "--env", "NCCL_DEBUG=INFO")

    assert env["NCCL_DEBUG"] == "INFO"


def test_jax_reads_its_place_from_open_mpis_names(flota):
    env = env_of(flota, "--framework", "jax", "--nproc_per_node", 2)

    assert env["OMPI_COMM_WORLD_SIZE"] == "2"
    assert env["JAX_COORDINATOR_ADDRESS"].startswith("127.0.0.1:")


ASKS_JAX = """
import json, os
if False:
    import jax
    jax.distributed.initialize()
json.dump(dict(os.environ), open(f"env.{os.environ['FLOTA_RANK']}", "w"))
"""


def env_of_jax_script(flota, *flags, path="asks.py", text=ASKS_JAX, env=None):
    (flota.directory / path).parent.mkdir(exist_ok=True)
    (flota.directory / path).write_text(text)
    result = flota.run("--nproc_per_node", 2, *(flags or (path,)), env=env)
    assert result.returncode == 0, result.stderr
    return json.loads((flota.directory / "env.1").read_text())


def open_mpis(env):
    return {name.removeprefix("OMPI_COMM_WORLD_"): env[name] for name in env if name.startswith("OMPI_COMM_WORLD_")}


@pytest.mark.parametrize(
    ("words", "path"),
    [((), "asks.py"), (("-m", "asks"), "asks.py"), (("-m", "package"), "package/__main__.py")],
    ids=["a script", "a module", "a package"],
)
def test_a_script_that_asks_jax_gets_open_mpis_names(flota, words, path):
    env = env_of_jax_script(flota, *words, path=path)

    assert open_mpis(env) == {"SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "LOCAL_SIZE": "2"}
    assert env["OMPI_MCA_orte_hnp_uri"] == f"1.0;tcp://{env['JAX_COORDINATOR_ADDRESS']}"


def test_what_prepares_workers_of_jax_leaves_no_trace(flota):
    mine = {"PYTHONPATH": "/mine"}

    for env, given in ((None, None), (mine, "/mine")):
        seen = env_of_jax_script(flota, env=env)
        assert seen.get("PYTHONPATH") == given
        assert not {"FLOTA_PYTHONPATH", "FLOTA_EXIT_AFTER_ERROR"} & set(seen)


def test_open_mpis_own_names_are_not_changed(flota):
    env = env_of_jax_script(flota, env={"OMPI_COMM_WORLD_SIZE": "7"})

    assert open_mpis(env) == {"SIZE": "7"}


def test_other_scripts_do_not_get_open_mpis_names(flota):
    assert not [name for name in env_of(flota) if name.startswith("OMPI_")]
    assert not open_mpis(env_of_jax_script(flota, text=ASKS_JAX.replace("initialize()", "initialize(a, 2, 1)")))
    assert not open_mpis(env_of_jax_script(flota, "--framework", "torch", "asks.py"))


def test_a_script_that_can_be_read_only_once_is_left_to_its_worker(flota):
    os.mkfifo(flota.directory / "pipe")
    with subprocess.Popen(["sh", "-c", "echo \"print('read once')  # jax\" > pipe"], cwd=flota.directory) as writer:
        result = flota.run("pipe")
        writer.kill()

    assert result.stdout == "read once\n"


def test_tf_config_names_every_worker(flota):
    env = env_of(flota, "--nproc_per_node", 3, rank=2)

    config = json.loads(env["TF_CONFIG"])
    assert config["task"] == {"type": "worker", "index": 2}
    assert config["cluster"]["worker"] == env["PADDLE_TRAINER_ENDPOINTS"].split(",")


def test_all_ports_of_a_job_differ(flota):
    env = env_of(flota, "--nproc_per_node", 4)

    addresses = [
        *env["PADDLE_TRAINER_ENDPOINTS"].split(","),
        env["PADDLE_MASTER"],
        env["JAX_COORDINATOR_ADDRESS"],
        env["FLOTA_MASTER"],
    ]
    assert len({address.rpartition(":")[2] for address in addresses}) == 7


def test_start_port_gives_consecutive_ports(flota):
    env = env_of(flota, "--nproc_per_node", 2, "--start_port", 20070)

    assert env["PADDLE_TRAINER_ENDPOINTS"] == "127.0.0.1:20070,127.0.0.1:20071"


@pytest.mark.parametrize("how", [["--port-range", "21000:21100"], "PORT_RANGE", "FLAGS_START_PORT"])
def test_ports_are_taken_from_the_range(flota, how):
    flags, variables = (
        (how, {}) if isinstance(how, list) else ([], {how: "21000:21100" if how == "PORT_RANGE" else "21000"})
    )

    env = env_of(flota, "--nproc_per_node", 2, *flags, env=variables)

    ports = [
        int(env["MASTER_PORT"]),
        *(int(each.rpartition(":")[2]) for each in env["PADDLE_TRAINER_ENDPOINTS"].split(",")),
    ]
    assert all(21000 <= port <= 21200 for port in ports)


def test_torch_sees_only_the_devices_named(flota):
    env = env_of(flota, "--devices", "2,3", rank=1, env={"CUDA_VISIBLE_DEVICES": "0,1,2,3"})

    assert env["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert (env["LOCAL_RANK"], env["FLAGS_selected_gpus"], env["FLOTA_DEVICE"]) == ("1", "1", "3")


@pytest.mark.parametrize("framework", ["paddle", "jax"])
def test_with_virtual_local_rank_every_worker_counts_from_0(flota, framework):
    env = env_of(flota, "--virtual-local-rank", "--framework", framework, rank=1, env={"CUDA_VISIBLE_DEVICES": "4,5"})

    assert env["CUDA_VISIBLE_DEVICES"] == "5"
    assert env["FLAGS_selected_gpus" if framework == "paddle" else "JAX_LOCAL_DEVICE_IDS"] == "0"


def test_jax_gets_its_device(flota):
    assert (
        env_of(flota, "--framework", "jax", rank=1, env={"CUDA_VISIBLE_DEVICES": "4,5"})["JAX_LOCAL_DEVICE_IDS"] == "1"
    )


def test_a_single_jax_worker_uses_all_devices(flota):
    flags = "--framework", "jax", "--nproc_per_node", 1

    assert env_of(flota, *flags, env={"CUDA_VISIBLE_DEVICES": "4,5"})["JAX_LOCAL_DEVICE_IDS"] == "0,1"


def test_devices_cpu_hides_them(flota):
    env = env_of(flota, "--devices", "cpu", "--nproc_per_node", 2, env={"CUDA_VISIBLE_DEVICES": "0"})

    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert env["PADDLE_DISTRI_BACKEND"] == "gloo"
    assert "FLAGS_selected_gpus" not in env


def test_custom_devices_use_xccl(flota):
    env = env_of(flota, env={"ASCEND_RT_VISIBLE_DEVICES": "0,1"})

    assert (env["FLAGS_selected_npus"], env["PADDLE_DISTRI_BACKEND"], env["PADDLE_XCCL_BACKEND"]) == (
        "0",
        "xccl",
        "npu",
    )


def test_backend_is_paddles(flota):
    assert env_of(flota, "--backend", "nccl")["PADDLE_DISTRI_BACKEND"] == "nccl"


@pytest.mark.parametrize(
    ("flags", "env", "threads"),
    [
        (["--nproc_per_node", 1], {}, None),
        (["--nproc_per_node", 2], {}, max(1, len(os.sched_getaffinity(0)) // 2)),
        (["--nproc_per_node", 2], {"CUDA_VISIBLE_DEVICES": "0,1"}, 1),
        (["--nproc_per_node", 2, "--threads", 5], {}, 5),
        (["--nproc_per_node", 2], {"OMP_NUM_THREADS": "7"}, 7),
        (["--nproc_per_node", 2, "--threads", 5], {"OMP_NUM_THREADS": "7"}, 5),
    ],
)
def test_threads(flota, flags, env, threads):
    assert env_of(flota, *flags, env=env).get("OMP_NUM_THREADS") == (str(threads) if threads else None)


def test_host_names_this_machine(flota):
    env = env_of(flota, env={"POD_IP": "127.0.0.2"})

    assert env["MASTER_ADDR"] == "127.0.0.2"
    assert env["PADDLE_CURRENT_ENDPOINT"].startswith("127.0.0.2:")


def test_ipv6_addresses_are_in_brackets(flota):
    env = env_of(flota, "--host", "::1")

    assert env["MASTER_ADDR"] == "::1"
    assert env["PADDLE_MASTER"].startswith("[::1]:")


def test_a_platforms_pod_name_stays(flota):
    assert env_of(flota, env={"POD_NAME": "given"})["POD_NAME"] == "given"


def test_ranks_count_up_over_nodes_with_different_numbers_of_workers():
    three = roster(3, 1, 2)

    workers = [worker for seat in range(3) for worker in plan_workers(spec(), three, seat)]

    assert [worker.rank for worker in workers] == [0, 1, 2, 3, 4, 5]
    assert [worker.local_rank for worker in workers] == [0, 1, 2, 0, 0, 1]
    last = add_variables(spec(), three, workers[-1], {}).env
    assert (last["RANK"], last["WORLD_SIZE"], last["LOCAL_WORLD_SIZE"], last["GROUP_RANK"]) == ("5", "6", "2", "2")
    assert last["PADDLE_CURRENT_ENDPOINT"] == "10.0.0.2:6001"
    assert last["MASTER_ADDR"] == "10.0.0.0"


def test_a_list_over_paddles_limit_goes_to_a_file():
    large = roster(*[8] * 600, address="10.10.10.{}")
    (worker, *_) = plan_workers(spec(("paddle",)), large, 0)

    env = add_variables(spec(("paddle",)), large, worker, {}).env

    assert len(",".join(large.endpoints())) >= LONGEST_LIST
    assert "PADDLE_TRAINER_ENDPOINTS" not in env
    assert env["PADDLE_BACKUP_ENV_PATH"] == "/log/backup_env.0.json"


def test_the_file_for_long_lists_holds_only_flotas_values_and_is_private(tmp_path):
    from flota.run.start import back_up_long_values

    large = roster(*[8] * 600, address="10.10.10.{}")
    wish = spec(("paddle",))._replace(log=LogSpec(str(tmp_path)))
    back_up_long_values(wish, large, plan_workers(wish, large, 0)[:1])

    file = tmp_path / "backup_env.0.json"
    assert json.loads(file.read_text()) == {"PADDLE_TRAINER_ENDPOINTS": ",".join(large.endpoints())}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_tf_config_that_no_process_could_take_is_left_out_or_refused():
    from flota.errors import VariableTooLong

    huge = roster(*[8] * 1200, address="10.10.10.{}")
    (worker, *_) = plan_workers(spec(), huge, 0)

    assert "TF_CONFIG" not in add_variables(spec(), huge, worker, {}).env
    with pytest.raises(VariableTooLong, match="TF_CONFIG"):
        add_variables(spec(("tensorflow",)), huge, worker, {})


def test_many_workers_really_start(flota):
    """The kernel's limits are known: 200 workers with all variables of all frameworks."""
    result = flota.run("--nproc_per_node", 200, "--console", "none", "--no-python", "true", timeout=120)

    assert result.returncode == 0, (result.stderr, COMMAND)


def test_workers_get_the_interface_if_the_hostname_resolves_wrongly():
    two = roster(1, 1)
    worker = plan_workers(spec(), two, 1)[0]

    told = add_variables(spec(interface="eth1"), two, worker, {"NCCL_SOCKET_IFNAME": "ib0"})
    untold = add_variables(spec(), two, worker, {})

    assert {name: value for name, value in told.env.items() if name.endswith("IFNAME")} == {
        "GLOO_SOCKET_IFNAME": "eth1",
        "TP_SOCKET_IFNAME": "eth1",
    }
    assert "GLOO_SOCKET_IFNAME" in told.env["FLOTA_GIVEN"].split(",")
    assert not [name for name in untold.env if name.endswith("IFNAME")]


def test_workers_do_not_get_the_secrets_of_the_store_and_the_error_file_of_flota():
    one = roster(1)

    plan = add_variables(spec(), one, plan_workers(spec(), one, 0)[0], {})

    assert set(plan.dropped) == {
        "TORCHELASTIC_ERROR_FILE",
        "FLOTA_TOKEN",
        "FLOTA_TOKEN_FILE",
        "FLOTA_ETCD_PASSWORD",
        "FLOTA_ETCD_PASSWORD_FILE",
        "FLOTA_SNAPSHOT",  # of an outer job
        "FLOTA_SNAPSHOT_FROM",
    }
