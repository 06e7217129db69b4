"""The examples: the command of each README, in its own folder, trains a model on two workers together."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launching import children, wait_until

from .conftest import KEPT_VARIABLES, Peer, collect_orphans, end_all_but, living_descendants, run
from .environments import ROOT

pytestmark = pytest.mark.real

EXAMPLES = {
    "plain_python": "jax",  # any environment will do
    "torch_ddp": "torch",
    "torch_checkpoint": "torch",
    "torch_snapshot": "torch",
    "paddle_low_level": "paddle",
    "paddle_model_fit": "paddle",
    "paddle_fleet": "paddle",
    "jax": "jax",
    "tensorflow": "tensorflow",
}
SPAWNING = {
    "spawn_torch": "torch",
    "spawn_paddle": "paddle",
    "spawn_jax": "jax",
    "spawn_tensorflow": "tensorflow",
}
ALONE = ["plain_python", "torch_ddp", "torch_snapshot", "paddle_low_level", "paddle_model_fit", "jax", "tensorflow"]
LEARNED = "y = 3.00 x + -2.00"


def peer_for(example, directory):
    """The example's framework, in a copy of its folder: logs are not for the repository."""
    shutil.copytree(ROOT / "examples" / example, directory / example)
    return Peer({**EXAMPLES, **SPAWNING}[example], directory / example)


def command_of(example):
    """The one command of its README."""
    text = (ROOT / "examples" / example / "README.md").read_text()
    [block] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    [command] = block.splitlines()
    return command.split()


def test_every_example_is_tried():
    # With roles: test_tensorflow_ps.py; without a framework: below; on clusters: tests/netns, tests/processes.
    elsewhere = {"tensorflow_ps", "notebook", "slurm", "kubernetes"}

    assert {path.name for path in (ROOT / "examples").iterdir()} - elsewhere == {*EXAMPLES, *SPAWNING}


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_trains_on_two_workers(tmp_path, example):
    peer = peer_for(example, tmp_path)
    # In Paddle's environment the name fleetrun is Paddle's own.
    program, *words = command_of(example)
    assert program in ("flota", "fleetrun")

    peer.flota(*words)

    for rank in (0, 1):
        assert f"rank {rank} of 2: {LEARNED}" in peer.said(rank)


@pytest.mark.parametrize("example", ALONE)
def test_an_example_trains_alone(tmp_path, example):
    ended = peer_for(example, tmp_path).run("python", "train.py")

    assert ended.code == 0, ended.err
    assert f"rank 0 of 1: {LEARNED}" in ended.out


@pytest.mark.parametrize("example", SPAWNING)
def test_an_example_of_spawn_trains_in_two_workers(tmp_path, example):
    program, *words = command_of(example)
    assert program == "python"

    ended = peer_for(example, tmp_path).run(program, *words)

    assert ended.code == 0, ended.err
    assert ended.left == []
    assert [line for line in ended.out.splitlines() if LEARNED in line] == [
        f"rank {rank} of 2: {LEARNED}" for rank in (0, 1)
    ]


def test_the_checkpoint_is_where_the_next_run_begins(tmp_path):
    peer = peer_for("torch_checkpoint", tmp_path)
    flags = command_of("torch_checkpoint")[1:]
    script = peer.directory / "train.py"
    whole = script.read_text()
    script.write_text(whole.replace("range(first, 201)", "range(first, 100)"))
    peer.flota(*flags)
    script.write_text(whole)

    ended = peer.flota(*flags)

    assert "step 120 " in ended.out and "step  40 " not in ended.out
    assert f"rank 0 of 2: {LEARNED}" in ended.out


@pytest.fixture
def checkpoints(tmp_path):
    """The example at a pace at which it can be met on its way, started; its flags and the code that it must end with."""
    peer = peer_for("torch_checkpoint", tmp_path)
    script = peer.directory / "train.py"
    asks = "    stopped = flota.should_stop()\n"
    assert asks in script.read_text()
    script.write_text(script.read_text().replace(asks, f"    __import__('time').sleep(0.02)\n{asks}"))
    collect_orphans()
    before = living_descendants()
    running = []

    def start():
        command = [peer.bin / "flota", *command_of("torch_checkpoint")[1:]]
        env = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        running.append(
            subprocess.Popen(command, cwd=peer.directory, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        )
        log = peer.directory / "log" / "workerlog.0"
        wait_until(lambda: log.exists() and "step  40 " in log.read_text(), "a checkpoint", 60)
        return running[-1]

    yield start
    end_all_but(before)
    for process in running:
        process.wait()
        process.stdout.close()


def finished(process):
    out = process.communicate(timeout=60)[0].decode()
    return process.returncode, out


def test_a_killed_worker_is_followed_by_a_start_from_the_last_checkpoint(checkpoints):
    process = checkpoints()
    [shepherd] = children(process.pid)
    os.kill(children(shepherd)[1], signal.SIGKILL)

    code, out = finished(process)

    assert code == 0, out
    assert "step   0  attempt 0" in out and "step 200  attempt 1" in out
    assert "step   0  attempt 1" not in out
    assert f"rank 0 of 2: {LEARNED}" in out


def test_a_preempted_example_continues_from_its_checkpoint(checkpoints):
    process = checkpoints()
    process.send_signal(signal.SIGTERM)

    code, out = finished(process)

    assert code == 75, out
    saved = int(out.splitlines()[-1].split()[1])
    assert saved < 200
    again, more = finished(checkpoints())
    assert again == 0, more
    assert all(int(line.split()[1]) > saved for line in more.splitlines() if line.startswith("step"))
    assert f"rank 0 of 2: {LEARNED}" in more


def test_the_notebook_trains(tmp_path):
    shutil.copytree(ROOT / "examples" / "notebook", tmp_path / "notebook")
    program, *words = command_of("notebook")
    own = Path(sys.executable).parent

    ended = run([str(own / program), *words, "--inplace"], tmp_path / "notebook", PATH=f"{own}:{os.environ['PATH']}")

    assert ended.code == 0, ended.err
    text = (tmp_path / "notebook" / "train.ipynb").read_text()
    assert all(f"rank {rank} of 2: {LEARNED}" in text for rank in (0, 1))
