"""In pods of PaddleCloud: `fleetrun train.py`, and nothing else to say."""

from __future__ import annotations

import json

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


def test_a_role_is_run_once_with_the_platforms_variables_as_they_are(flota):
    environ = pod(
        1,
        TRAINING_ROLE="PSERVER",
        PADDLE_PSERVERS_IP_PORT_LIST="127.0.0.3:7100,127.0.0.4:7100",
        PADDLE_TRAINER_ENDPOINTS="127.0.0.2:7200,127.0.0.3:7200",
        PADDLE_PORT="7100",
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
    assert (env["FLOTA_ROLE"], env["FLOTA_WORLD_SIZE"]) == ("server", "1")
    assert "PaddleCloud: running the script once, as PSERVER" in result.stderr


@pytest.mark.parametrize("outer", [("--nnodes", 1, "--framework", "torch"), ()], ids=["a_job_alone", "a_role"])
def test_a_flota_inside_a_worker_does_not_ask_the_platform_again(flota, outer):
    (flota.directory / "outer.py").write_text(INNER)
    servers = {"TRAINING_ROLE": "TRAINER", "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.3:7100"}

    result = flota.run(*outer, "outer.py", "--nproc_per_node", "2", env=pod(1, **({} if outer else servers)))

    assert result.returncode == 0, result.stderr
    assert [dump(flota, rank)["PADDLE_TRAINERS_NUM"] for rank in range(2)] == ["2", "2"]
    assert dump(flota, 1)["PADDLE_NNODES"] == "1"
