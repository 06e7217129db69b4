"""Warm workers of the real frameworks train as cold ones do, at a start and after a restart."""

from __future__ import annotations

import os
import signal

import pytest

from tests.lab import Lab
from tests.launching import SHEPHERD, children, name_of

from .conftest import Peer, results, script
from .over_hosts import MASTER, Job, States, needs_lab

pytestmark = pytest.mark.real

FORKED = "warm: workers are forked from one interpreter, which imported"
PARKED = "warm: 2 of 2 interpreters are ready for the next start"
FRAMEWORKS = {
    "torch": ("ddp.py", FORKED),
    "paddle": ("paddle_data_parallel.py", PARKED),  # it asks for PADDLE_TRAINER_ID when it is imported
    "jax": ("jax_data_parallel.py", PARKED),
    "tensorflow": ("tensorflow_mirrored.py", PARKED),
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_trains_to_the_same_loss(tmp_path, name):
    peer = Peer(name, tmp_path)
    trains, way = FRAMEWORKS[name]
    flags = ["--framework", name, "--nproc_per_node", "2"]

    peer.flota(*flags, "--log_dir", "cold", script(trains))
    started = peer.flota(*flags, "--warm", "auto", "--log_dir", "warm", script(trains))
    again = script("killed_when_parked.py")
    restarted = peer.flota(
        *flags, "--warm", name, "--max_restart", "1", "--log_dir", "again", again, way, script(trains)
    )

    assert ("warm: cold start: " if way == PARKED else FORKED) in started.err
    assert way in restarted.err
    for rank in range(2):
        assert peer.results(rank, "cold")
        assert peer.results(rank, "warm") == peer.results(rank, "cold")
        assert peer.results(rank, "again") == peer.results(rank, "cold")
        assert f"MODULES {name}" in peer.said(rank, "again")


def test_a_killed_rank_of_torch_resumes_with_the_same_loss(tmp_path):
    torch = Peer("torch", tmp_path)
    flags = ["--nproc_per_node", "2", "--max_restart", "2"]

    cold = torch.flota(*flags, "--log_dir", "cold", script("ddp.py"))
    killed = ["--checkpoint", "state.pt", "--killed-at", "5"]
    warm = torch.flota(*flags, "--warm", "auto", script("ddp.py"), *killed)

    assert FORKED in warm.err
    assert results(warm.out) == results(cold.out)
    assert "START rank=1 attempt=1 step=5" in torch.said(1)


@needs_lab
def test_torch_is_warm_on_all_hosts_after_the_loss_of_a_shepherd_and_of_a_node(tmp_path, undisturbed):
    flags = ("--nnodes", 3, "--master", MASTER, "--max_restart", 3, "--warm", "auto")
    states = States(tmp_path / "states")
    with Lab(3) as lab:
        job = Job("torch", lab, tmp_path, "checkpointed.py", states.directory, "--steps", 30)
        states.open_gate(10)
        job.start([1, 2, 3], *flags)
        states.wait_for_step_after(9)

        node = job.on[2].process
        [shepherd] = [pid for pid in children(node.pid) if name_of(pid) == SHEPHERD and children(pid)]
        os.kill(shepherd, signal.SIGKILL)
        states.open_gate(20)
        states.wait_for_step_after(19)
        node.kill()
        node.wait()
        job.start([2], *flags)
        states.open_gate(30)

        job.finish()
        for started in job.nodes.started:
            assert FORKED in started.err
            assert "cold start" not in started.err and "parked interpreter exited" not in started.err
    assert job.results() == {rank: [f"RESULT world=3 loss={undisturbed(30)}"] for rank in range(3)}


@pytest.mark.parametrize("flags", [[], ["--nproc_per_node", "2"]])
def test_libraries_have_the_threads_of_a_cold_start_and_random_numbers_of_their_own(tmp_path, flags):
    torch = Peer("torch", tmp_path)

    torch.flota(*flags, "--log_dir", "cold", script("threads_and_chance.py"))
    warm = torch.flota(*flags, "--warm", "auto", "--log_dir", "warm", script("threads_and_chance.py"))

    assert FORKED in warm.err
    ranks = range(2 if "--nproc_per_node" in flags else 1)
    for rank in ranks:
        assert torch.results(rank, "warm") == torch.results(rank, "cold")
    drawn = [drawn_by(torch, rank, log) for rank in ranks for log in ("warm", "cold")]
    assert len({number for numbers in drawn for number in numbers}) == 3 * len(drawn)


@pytest.mark.parametrize("seed", [3, 1 << 40])
def test_seeds_that_an_import_gives_are_every_workers(tmp_path, seed):
    torch = Peer("torch", tmp_path)
    (tmp_path / "seeds.py").write_text(f"import numpy, torch\nnumpy.random.seed(3)\ntorch.manual_seed({seed})")
    (tmp_path / "draws.py").write_text(
        "import numpy, seeds, torch\nprint('DRAWN', numpy.random.rand(), torch.rand(1).item())"
    )

    warm = torch.flota("--warm", "seeds", "--nproc_per_node", "2", "draws.py")
    torch.flota("--log_dir", "cold", "draws.py")

    assert "cold start: an import seeded a random generator" in warm.err
    assert [drawn_by(torch, rank, "log") for rank in range(2)] == [drawn_by(torch, 0, "cold")] * 2


def test_forks_of_paddle_have_random_numbers_of_their_own(tmp_path):
    paddle = Peer("paddle", tmp_path)
    (tmp_path / "draws.py").write_text(
        "import os, paddle, sys\nprint('DRAWN', paddle.rand([1], 'float64').item())\n"
        "sys.exit(1 if os.environ['FLOTA_ATTEMPT'] == '0' else 0)"
    )

    warm = paddle.flota("--warm", "auto", "--max_restart", "1", "draws.py")

    assert FORKED in warm.err
    first, second = [line for line in paddle.said(0).splitlines() if line.startswith("DRAWN")]
    assert first != second


def drawn_by(peer, rank, log):
    [line] = [line for line in peer.said(rank, log).splitlines() if line.startswith("DRAWN")]
    return line.split()[1:]
