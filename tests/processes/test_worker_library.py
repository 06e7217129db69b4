"""What scripts may import from flota, in real workers. Frameworks are in tests/peers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from flota.host.channel import Channel
from tests.launching import WORKERS, environment


@pytest.mark.parametrize("what", ["main", "script"])
@pytest.mark.parametrize("words", [(), ("--framework", "jax")], ids=["any framework", "without torch's variables"])
def test_a_recorded_traceback_is_in_the_failure_report(flota, words, what):
    ended = flota.run(*words, "--nproc_per_node", "2", "fails_recorded.py", what)

    assert ended.returncode == 1
    assert flota.log(1) == ""
    traceback = json.loads((flota.directory / "log" / "error.1.json").read_text())["message"]["extraInfo"][
        "py_callstack"
    ]
    assert "in read_shard" in traceback
    assert "recording.py" not in traceback
    for line in traceback.splitlines():
        assert line in ended.stderr
    [failure] = json.loads((flota.directory / "log" / "report.json").read_text())["failures"]
    assert failure["said"][-1] == "ValueError: shard-00017 is torn"


def test_workers_of_other_roles_are_recorded(flota):
    script = "import flota\nflota.record()\nif flota.env().role == 'critic': raise ValueError('torn')\n"
    (flota.directory / "roles.py").write_text(script)

    ended = flota.run("--framework", "jax", "--roles", "actor=1,critic=1", "roles.py")

    assert ended.returncode == 1
    assert (flota.directory / "log" / "error.critic.0.json").exists()


def test_what_is_not_recorded_is_not_shown(flota):
    ended = flota.run("--nproc_per_node", "2", "fails_recorded.py", "no")

    assert ended.returncode == 1
    assert not (flota.directory / "log" / "error.1.json").exists()
    assert "torn" not in ended.stderr


def test_workers_learn_who_they_are(flota):
    ended = flota.run("--nproc_per_node", "2", "--job_id", "night", "tells_env.py", env={"CUDA_VISIBLE_DEVICES": "4,5"})

    assert ended.returncode == 0, ended.stderr
    master = flota.log(1).partition("master=")[2]
    assert flota.log(1) == (
        "Env(rank=1, local_rank=1, world_size=2, local_world_size=2, node_rank=0, nodes=1, device='5', role='trainer',"
        f" attempt=0, job_id='night', master={master}"
    )
    assert master.startswith("'127.0.0.1:")
    assert flota.log(0).startswith("Env(rank=0, local_rank=0, world_size=2")


def test_without_a_launcher_a_script_is_alone():
    ended = subprocess.run(
        [sys.executable, WORKERS / "tells_env.py"], env=environment(), capture_output=True, text=True, check=True
    )

    assert ended.stdout.startswith("Env(rank=0, local_rank=0, world_size=1, local_world_size=1, node_rank=0, nodes=1")


def test_a_program_that_a_worker_starts_does_not_speak_for_it():
    channel = Channel(1)
    inner = "import flota; flota.heartbeat(99)"
    script = f"import flota, subprocess, sys; flota.heartbeat(1); subprocess.run([sys.executable, '-c', {inner!r}])"

    subprocess.run([sys.executable, "-c", script], env=environment({"FLOTA_CHANNEL": channel.page_path(0)}), check=True)

    assert channel.read(0).step == 1
    channel.close()


TRUNCATES = """\
import os, sys
import flota
path = os.environ["FLOTA_CHANNEL"].rpartition(":")[0]
flota.heartbeat(7)
try:
    os.truncate(path, 0)
except PermissionError:
    pass
sys.exit(6)
"""


def test_a_worker_that_truncates_the_shared_memory_does_not_end_flota(flota):
    (flota.directory / "truncates.py").write_text(TRUNCATES)

    ended = flota.run("--nproc_per_node", 2, "--max_restart", 1, "truncates.py")

    assert ended.returncode == 6, ended.stderr
    assert "restarting (1 of 1)" in ended.stderr
    assert json.loads((flota.directory / "log" / "report.json").read_text())["failures"][0]["last_step"] == 7
