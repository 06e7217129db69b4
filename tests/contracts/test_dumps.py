"""What a worker gets, against what the real launchers gave in the same case (dumps/, recorded from torch and Paddle)."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

DUMPS = Path(__file__).parent / "dumps"
TORCH_LAUNCH = [sys.executable, "-m", "flota.torch_launch"]

# Where flota differs on purpose, and why.
DIFFERENT = {
    "CUSTOM_DEVICE_ROOT": "leaks from importing paddle in the launcher",
    "OMP_NUM_THREADS": "on CPU the CPUs are shared out instead of one each",
    "PADDLE_BACKUP_ENV_PATH": "only when a value is too long: it would hold the user's environment",
    "POD_NAME": "the node's name instead of six random letters",
    "MASTER_ADDR": "an address instead of localhost",
    "MASTER_PORT": "a fresh port each round, also with --master-port",
    "TORCHELASTIC_RUN_ID": "random as well, or the job id",
    "TORCHELASTIC_ERROR_FILE": "in flota's own log directory",
    "TORCHELASTIC_USE_AGENT_STORE": "rank 0 serves the store, so that a restart never meets old keys",
    "http_proxy_original": "compared by its own test",
    "https_proxy_original": "compared by its own test",
}
CASES = [
    ("paddle_collective_cpu_1node", ["--nproc_per_node", 2], {}, None),
    ("paddle_collective_cpu_ips_1node", ["--ips", "127.0.0.1", "--nproc_per_node", 2], {}, None),
    ("paddle_collective_gpu_env_visible_devices", [], {"CUDA_VISIBLE_DEVICES": "4,5,6"}, None),
    (
        "paddle_collective_gpu_env_one_proc_many_devices",
        ["--nproc_per_node", 1],
        {"CUDA_VISIBLE_DEVICES": "4,5,6"},
        None,
    ),
    (
        "paddle_collective_gpu_env_gpus_flag",
        ["--gpus", "6,4", "--framework", "paddle"],
        {"CUDA_VISIBLE_DEVICES": "4,5,6"},
        None,
    ),
    ("paddle_collective_xpu_env", [], {"CUDA_VISIBLE_DEVICES": "4,5", "XPU_VISIBLE_DEVICES": "1"}, None),
    (
        "paddle_paddlecloud_env_1host",
        ["--nproc_per_node", 2],
        {
            "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:7001,127.0.0.1:7002",
            "PADDLE_TRAINERS": "127.0.0.1",
            "PADDLE_TRAINER_ID": "0",
            "POD_IP": "127.0.0.1",
            "TRAINER_PORTS_NUM": "2",
            "PADDLE_TRAINERS_NUM": "1",
            "PADDLE_PORT": "7001",
        },
        None,
    ),
    ("torch_standalone", ["--standalone", "--nproc-per-node", 2], {}, None),
    ("torch_masterport", ["--nproc-per-node", 1, "--master-port", 29633], {}, None),
    ("torch_virtual", ["--nproc-per-node", 2, "--virtual-local-rank"], {"CUDA_VISIBLE_DEVICES": "4,6"}, None),
    ("torch_launch", ["--nproc-per-node", 2], {}, TORCH_LAUNCH),
    ("torch_launch_useenv", ["--use-env", "--nproc-per-node", 1], {}, TORCH_LAUNCH),
    ("torch_restart", ["--nproc-per-node", 1, "--max-restarts", 2], {}, None),
]


def recorded(name: str) -> dict[str, dict]:
    """Each worker of a dump by its rank; of a restarted one the first attempt."""
    workers = json.loads((DUMPS / f"{name}.json").read_text())["workers"]
    if isinstance(workers, list):
        return {worker["set_or_changed"]["PADDLE_TRAINER_ID"]: worker for worker in workers}
    return {worker["set_or_changed"]["RANK"]: worker for key, worker in workers.items() if key.endswith("/0")}


def without_ports(value: str) -> str:
    return re.sub(r":\d{2,5}\b", ":PORT", value)


@pytest.mark.parametrize(("name", "flags", "env", "command"), CASES, ids=[case[0] for case in CASES])
def test_workers_get_what_the_real_launcher_gives(flota, name, flags, env, command):
    given = recorded(name)
    words = [word for word in given["0"]["argv"][1:] if not word.startswith("--local-rank")]
    flota.run(*flags, "dumps_env.py", *words, env=env, command=command)

    for rank, worker in given.items():
        own = json.loads((flota.directory / f"dump.{rank}.json").read_text())
        assert own["argv"][1:] == worker["argv"][1:]
        for variable, value in worker["set_or_changed"].items():
            if variable not in DIFFERENT:
                ours = own["env"].get(variable, "(unset)").replace(str(flota.directory), "/JOB")
                assert without_ports(ours) == without_ports(value), variable


def test_one_pod_of_paddlecloud_has_ports_of_its_own_choice_as_with_the_real_launcher(flota):
    given = next(env for name, _, env, _ in CASES if name == "paddle_paddlecloud_env_1host")

    flota.run("--nproc_per_node", 2, "dumps_env.py", env=given)

    for rank, worker in recorded("paddle_paddlecloud_env_1host").items():
        own = json.loads((flota.directory / f"dump.{rank}.json").read_text())["env"]
        for listed in (own["PADDLE_TRAINER_ENDPOINTS"], worker["set_or_changed"]["PADDLE_TRAINER_ENDPOINTS"]):
            assert not set(listed.split(",")) & set(given["PADDLE_TRAINER_ENDPOINTS"].split(","))


def test_every_difference_has_a_reason():
    recorded_names = {
        variable for case in CASES for worker in recorded(case[0]).values() for variable in worker["set_or_changed"]
    }

    assert set(DIFFERENT) - {"http_proxy_original", "https_proxy_original"} <= recorded_names


def test_paddle_alone_has_its_proxies_put_away_as_by_its_launcher(flota):
    proxies = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    flota.run("--framework", "paddle", "dumps_env.py", env=proxies)

    own = json.loads((flota.directory / "dump.0.json").read_text())["env"]
    (worker,) = recorded("paddle_proxy_env").values()
    for name, value in worker["set_or_changed"].items():
        if name.endswith("_original"):
            assert own[name] == value
    assert "http_proxy" not in own and "https_proxy" not in own


def test_otherwise_proxies_stay_and_the_jobs_addresses_go_around_them(flota):
    flota.run("dumps_env.py", env={"https_proxy": "http://127.0.0.1:9", "no_proxy": "internal.example"})

    own = json.loads((flota.directory / "dump.0.json").read_text())["env"]
    assert own["https_proxy"] == "http://127.0.0.1:9"
    assert own["no_proxy"] == own["NO_PROXY"] == "internal.example,localhost,127.0.0.1"


def test_without_a_proxy_no_proxy_is_left_alone(flota):
    flota.run("dumps_env.py")

    assert "no_proxy" not in json.loads((flota.directory / "dump.0.json").read_text())["env"]
