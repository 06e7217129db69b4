"""In pods of PaddleCloud: `fleetrun train.py`, and nothing else to say."""

from __future__ import annotations

import json
import socket

import pytest

from tests.launching import COMMAND, WORKERS, Flota

FLEETRUN = [COMMAND.parent / "fleetrun"]
INNER = f"""import subprocess, sys
sys.exit(subprocess.call([{str(COMMAND)!r}, "--log_dir", "inner", *sys.argv[1:], {str(WORKERS / "dumps_env.py")!r}]))
"""


def pod(number: int, **changes: str) -> dict[str, str]:
    """One of two, both on this machine."""
    return {
        "PADDLE_TRAINERS": "127.0.0.2,127.0.0.3",
        "PADDLE_TRAINERS_NUM": "2",
        "PADDLE_TRAINER_ID": str(number),
        "POD_IP": f"127.0.0.{number + 2}",
        "TRAINER_PORTS_NUM": "1",
        **changes,
    }


def dump(launcher: Flota, rank: int = 0) -> dict[str, str]:
    env: dict[str, str] = json.loads((launcher.directory / f"dump.{rank}.json").read_text())["env"]
    return env


def free_ports() -> tuple[int, int]:
    """One before which another is free, and one more."""
    while True:
        with socket.socket() as one, socket.socket() as before, socket.socket() as other:
            one.bind(("", 0))
            other.bind(("", 0))
            port: int = one.getsockname()[1]
            try:
                before.bind(("", port - 1))
            except OSError:
                continue
            return port, other.getsockname()[1]


def test_two_pods_meet_and_their_workers_have_the_ports_kept_for_them(tmp_path):
    first, second = free_ports()
    endpoints = f"127.0.0.2:{first},127.0.0.3:{second}"
    nodes = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        nodes.append(Flota(tmp_path / str(number)))
        nodes[number].start("dumps_env.py", env=pod(number, DISTRIBUTED_TRAINER_ENDPOINTS=endpoints), command=FLEETRUN)

    try:
        outputs = [node.started[0].output() for node in nodes]
        codes = [node.started[0].wait() for node in nodes]
    finally:
        for node in nodes:
            node.end()

    assert codes == [0, 0], outputs
    for rank, node in enumerate(nodes):
        env = dump(node, rank)
        assert (env["PADDLE_TRAINER_ID"], env["PADDLE_TRAINERS_NUM"], env["PADDLE_NNODES"]) == (str(rank), "2", "2")
        assert env["PADDLE_TRAINER_ENDPOINTS"] == endpoints
        assert env["PADDLE_CURRENT_ENDPOINT"] == endpoints.split(",")[rank]
        assert env["MASTER_ADDR"] == "127.0.0.2"
        assert f"on PaddleCloud: 2 nodes, which meet at 127.0.0.2:{first - 1}" in outputs[rank][1]


def test_a_dry_run_shows_what_was_taken_from_the_platform(flota):
    flags = ("--nproc_per_node", 2, "--dry-run")
    result = flota.run(*flags, "train.py", env=pod(1, PADDLE_PORT="7001", TRAINER_PORTS_NUM="2"), cwd=script_at(flota))

    assert result.returncode == 0, result.stderr
    assert "2 nodes meet at 127.0.0.2:7000; this node's address is 127.0.0.3" in result.stdout
    assert "  PADDLE_CURRENT_ENDPOINT=127.0.0.3:7002" in result.stdout
    assert "rank 3 gets" in result.stdout


def script_at(launcher: Flota) -> str:
    (launcher.directory / "train.py").touch()
    return str(launcher.directory)


@pytest.mark.parametrize(
    ("role", "name", "port"), [("PSERVER", "server", "7100"), ("TRAINER", "trainer", "7200")], ids=["server", "trainer"]
)
def test_a_role_is_run_once_with_the_platforms_variables_as_they_are(flota, role, name, port):
    environ = pod(
        1,
        TRAINING_ROLE=role,
        PADDLE_PSERVERS_IP_PORT_LIST="127.0.0.3:7100,127.0.0.4:7100",
        PADDLE_TRAINER_ENDPOINTS="127.0.0.2:7200,127.0.0.3:7200",
        PADDLE_PORT=port,
        POD_IP="job-ps-1",  # not an address of this machine, and it need not be
        POD_NAME="job-ps-1",
        CUDA_VISIBLE_DEVICES="0,1",
    )

    result = flota.run("dumps_env.py", "--lr", "1", env=environ, command=FLEETRUN)

    assert result.returncode == 0, result.stderr
    (only,) = flota.directory.glob("dump.*")
    env = json.loads(only.read_text())["env"]
    assert {variable: env[variable] for variable in environ} == environ
    added = {variable for variable in env if variable.startswith(("PADDLE_", "FLAGS_", "POD_", "TRAIN"))} - set(environ)
    assert not added
    assert (env["FLOTA_ROLE"], env["FLOTA_WORLD_SIZE"]) == (name, "1")
    assert f"on PaddleCloud: runs the script once, as {role}" in result.stderr


def test_a_role_ends_as_its_script_does(flota):
    servers = {"TRAINING_ROLE": "PSERVER", "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.3:7100"}

    result = flota.run("--no-python", "sh", "-c", "exit 7", env=pod(1, **servers), command=FLEETRUN)

    assert result.returncode == 7
    assert "server 0 failed first: exit code 7" in result.stderr
    assert (flota.directory / "log" / "serverlog.0").exists()


def test_a_flag_wins_over_the_platform_and_it_is_said(flota):
    result = flota.run("--nnodes", 1, "--nproc_per_node", 2, "dumps_env.py", env=pod(1))

    assert result.returncode == 0, result.stderr
    env = dump(flota, 1)
    assert (env["PADDLE_TRAINER_ID"], env["PADDLE_TRAINERS_NUM"], env["PADDLE_NNODES"]) == ("1", "2", "1")
    assert "PaddleCloud has 2 nodes, but --nnodes is given and wins" in result.stderr


@pytest.mark.parametrize("outer", [("--nnodes", 1, "--framework", "torch"), ()], ids=["a_job_alone", "a_role"])
def test_a_flota_inside_a_worker_does_not_ask_the_platform_again(flota, outer):
    (flota.directory / "outer.py").write_text(INNER)
    servers = {"TRAINING_ROLE": "TRAINER", "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.3:7100"}

    result = flota.run(*outer, "outer.py", "--nproc_per_node", "2", env=pod(1, **({} if outer else servers)))

    assert result.returncode == 0, result.stderr
    assert [dump(flota, rank)["PADDLE_TRAINERS_NUM"] for rank in range(2)] == ["2", "2"]
    assert dump(flota, 1)["PADDLE_NNODES"] == "1"


def test_variables_of_another_launchers_worker_are_not_the_platforms(flota):
    given = pod(3, PADDLE_TRAINER_ENDPOINTS="10.0.0.1:1,10.0.0.2:1", POD_IP="127.0.0.3")
    del given["PADDLE_TRAINERS"], given["TRAINER_PORTS_NUM"]

    result = flota.run("dumps_env.py", env=given)

    assert result.returncode == 0, result.stderr
    env = dump(flota)
    assert (env["PADDLE_TRAINER_ID"], env["PADDLE_TRAINERS_NUM"]) == ("0", "1")
    assert env["PADDLE_TRAINER_ENDPOINTS"] == env["PADDLE_CURRENT_ENDPOINT"]
    assert "PaddleCloud" not in result.stderr


def test_a_variable_of_the_platforms_that_makes_no_sense_is_an_error_with_a_way_out(flota):
    result = flota.run("sleeps.py", env=pod(2))

    assert result.returncode == 2
    assert "flota: error: PaddleCloud's PADDLE_TRAINER_ID is not a number from 0 to 1: `2`" in result.stderr
    assert "hint: say who takes part: --nnodes 2 --master 10.0.0.1:8090 --rank 0" in result.stderr
