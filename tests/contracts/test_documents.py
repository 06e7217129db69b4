"""The command lines of Paddle's documentation: who is started, with which devices, logs and ports.

Addresses are those of this machine, where the documentation has some of a cluster.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ONE, TWO = "127.0.0.16", "127.0.0.17"
LISTS = f"--servers={ONE}:6170,{TWO}:6170 --workers={ONE}:6171,{ONE}:6172,{TWO}:6171,{TWO}:6172"
HETER = f"--servers={ONE}:6170,{TWO}:6170 --workers={ONE}:6171,{TWO}:6171 --heter_workers={ONE}:6172,{TWO}:6172"
FLEETRUN = (
    f"--servers={ONE}:6170,{TWO}:6171 --workers={ONE}:6172,{ONE}:6173,{ONE}:6174,{ONE}:6175,"
    f"{TWO}:6176,{TWO}:6177,{TWO}:6178,{TWO}:6179"
)
# Each command with the visible devices, and its workers: name, the devices it sees (- where nothing is said), endpoint.
EXAMPLES = {
    "ps, cpu, one node": (
        "--server_num=2 --trainer_num=4",
        None,
        """server 0   -  127.0.0.1:<free>
           server 1   -  127.0.0.1:<free>
           trainer 0  -  127.0.0.1:<free>
           trainer 1  -  127.0.0.1:<free>
           trainer 2  -  127.0.0.1:<free>
           trainer 3  -  127.0.0.1:<free>""",
    ),
    "ps, cpu, two nodes": (
        f"--master={ONE}:8090 --nnodes=2 --server_num=1 --trainer_num=2",
        None,
        f"""server 0   -  {ONE}:<free>
            trainer 0  -  {ONE}:<free>
            trainer 1  -  {ONE}:<free>""",
    ),
    "ps, gpu, one node": (
        "--server_num=2 --worker_num=4",
        "0,1,2,3",
        """server 0   none  127.0.0.1:<free>
           server 1   none  127.0.0.1:<free>
           trainer 0  0     127.0.0.1:<free>
           trainer 1  1     127.0.0.1:<free>
           trainer 2  2     127.0.0.1:<free>
           trainer 3  3     127.0.0.1:<free>""",
    ),
    "ps, gpu, first of two nodes": (
        f"--host={ONE} {LISTS}",
        "0,1",
        f"""server 0   none  {ONE}:6170
            trainer 0  0     {ONE}:6171
            trainer 1  1     {ONE}:6172""",
    ),
    "ps, gpu, second of two nodes": (
        f"--host={TWO} {LISTS}",
        "0,1",
        f"""server 1   none  {TWO}:6170
            trainer 2  0     {TWO}:6171
            trainer 3  1     {TWO}:6172""",
    ),
    "ps-heter, one node": (
        "--server_num=2 --worker_num=2 --heter_worker_num=2",
        "0,1",
        """server 0   none  127.0.0.1:<free>
           server 1   none  127.0.0.1:<free>
           heter 0    0     127.0.0.1:<free>
           heter 1    1     127.0.0.1:<free>
           trainer 0  0     127.0.0.1:<free>
           trainer 1  1     127.0.0.1:<free>""",
    ),
    "ps-heter, first of two nodes": (
        f"--host={ONE} {HETER}",
        "0",
        f"""server 0   none  {ONE}:6170
            heter 0    0     {ONE}:6172
            trainer 0  0     {ONE}:6171""",
    ),
    "ps-heter, second of two nodes": (
        f"--host={TWO} {HETER}",
        "0",
        f"""server 1   none  {TWO}:6170
            heter 1    0     {TWO}:6172
            trainer 1  0     {TWO}:6171""",
    ),
    "fleetrun, one node": (
        "--server_num=1 --worker_num=4",
        None,
        """server 0   -  127.0.0.1:<free>
           trainer 0  -  127.0.0.1:<free>
           trainer 1  -  127.0.0.1:<free>
           trainer 2  -  127.0.0.1:<free>
           trainer 3  -  127.0.0.1:<free>""",
    ),
    "fleetrun, second of two nodes": (
        f"--host={TWO} {FLEETRUN}",
        None,
        f"""server 1   -  {TWO}:6171
            trainer 4  -  {TWO}:6176
            trainer 5  -  {TWO}:6177
            trainer 6  -  {TWO}:6178
            trainer 7  -  {TWO}:6179""",
    ),
}


def planned(flota, words: str, devices: str | None) -> list[dict]:
    (flota.directory / "train.py").touch()
    env = {} if devices is None else {"CUDA_VISIBLE_DEVICES": devices}
    result = flota.run("--dry-run", "--json", *words.split(), "train.py", "--lr=0.01", env=env)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["workers"]


def row(worker: dict) -> str:
    seen = worker["env"].get("CUDA_VISIBLE_DEVICES", "-") or "none"
    return f"{worker['role']} {worker['rank']} {seen} {worker['env']['FLOTA_ENDPOINT']}"


@pytest.mark.parametrize(("words", "devices", "rows"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_documents_commands_start_whom_they_say(flota, words, devices, rows):
    workers = planned(flota, words, devices)

    assert [row(worker) for worker in workers] == [" ".join(line.split()) for line in rows.split("\n")]
    stems = {"server": "serverlog", "heter": "heterlog", "trainer": "workerlog"}
    for worker in workers:
        assert [Path(log).name for log in worker["logs"]] == [f"{stems[worker['role']]}.{worker['rank']}"]
        assert worker["command"][1:] == ["-u", "train.py", "--lr=0.01"]


def test_all_ports_of_a_counted_job_are_its_own(flota):
    result = flota.run("--server_num=2", "--trainer_num=4", "--coordinator_num=1", "dumps_env.py")

    assert result.returncode == 0, result.stderr
    env = json.loads((flota.directory / "dump.0.json").read_text())["env"]
    lists = ("PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINER_ENDPOINTS", "PADDLE_COORDINATOR_ENDPOINTS")
    endpoints = [endpoint for name in (*lists, "PADDLE_GLOO_HTTP_ENDPOINT") for endpoint in env[name].split(",")]
    assert len(set(endpoints)) == 2 + 4 + 1 + 1


@pytest.mark.parametrize(("words", "kind"), [("", "gpu"), ("--heter_devices=cpu", "cpu")])
def test_heterogeneous_workers_use_the_machines_devices_by_default(flota, words, kind):
    workers = planned(flota, f"--trainer_num=1 --heter_worker_num=1 {words}", "0,1")

    own = {worker["role"]: worker["env"] for worker in workers}
    assert own["heter"]["HETER_DEVICE_TYPE"] == kind
    assert own["heter"]["CUDA_VISIBLE_DEVICES"] == ("0" if kind == "gpu" else "")
    assert own["trainer"]["HETER_DEVICE_TYPE"] == "cpu"


def test_more_trainers_than_devices_share_them_with_one_warning(flota):
    flags = ["--server_num", 3, "--trainer_num", 3, "dumps_env.py"]

    result = flota.run(*flags, env={"CUDA_VISIBLE_DEVICES": "4,5"})

    assert result.returncode == 0, result.stderr
    seen = [json.loads((flota.directory / f"dump.{rank}.json").read_text())["env"] for rank in range(3)]
    assert [env["CUDA_VISIBLE_DEVICES"] for env in seen] == ["4", "5", "4"]
    assert [env["FLAGS_selected_gpus"] for env in seen] == ["0", "0", "0"]
    (warning,) = [line for line in result.stderr.splitlines() if "share" in line]
    assert warning.endswith("3 workers share 2 devices")


def test_the_console_shows_trainer_0_and_no_server(flota):
    (flota.directory / "says.py").write_text("import os; print(os.environ['FLOTA_ROLE'], os.environ['FLOTA_RANK'])")

    result = flota.run("--server_num", 2, "--trainer_num", 2, "says.py")

    assert result.stdout == "trainer 0\n"
