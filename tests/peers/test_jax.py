"""JAX: `jax.distributed.initialize()` without arguments."""

from __future__ import annotations

import pytest

from tests.lab import Lab

from .conftest import Peer, fact, results, script
from .over_hosts import MASTER, Job, needs_lab

pytestmark = pytest.mark.real

RAISES = """
import sys
import jax
from jax.experimental import multihost_utils

jax.distributed.initialize()
for step in range(100_000):
    multihost_utils.sync_global_devices(f"step {step}")
    if step == 5 and sys.argv[1] == str(jax.process_index()):
        raise KeyError("lost sample")
"""


@pytest.fixture
def jax(tmp_path):
    return Peer("jax", tmp_path)


@pytest.fixture(scope="module")
def loss(tmp_path_factory):
    """What one process comes to."""
    alone = Peer("jax", tmp_path_factory.mktemp("alone")).run("python", script("jax_data_parallel.py"), "alone")
    assert alone.code == 0, alone.err
    [result] = results(alone.out)
    return fact(result, "loss")


@pytest.mark.parametrize("flags", [(), ("--framework", "jax")], ids=["any framework", "jax"])
def test_processes_find_each_other_without_arguments_and_train_as_one(jax, loss, flags):
    jax.flota(*flags, "--nproc_per_node", "2", script("jax_data_parallel.py"))

    for rank in (0, 1):
        assert jax.results(rank) == [f"RESULT rank={rank} world=2 total=3.0 loss={loss}"]


def test_a_call_that_flota_does_not_see_fails_with_a_hint(jax):
    (jax.directory / "calls.py").write_text("import jax\njax.distributed.initialize()\n")
    (jax.directory / "train.py").write_text("import calls\n")

    ended = jax.run("flota", "--nproc_per_node", "2", "train.py")

    assert ended.code == 1
    assert "hint: call flota.init_parallel_env() instead of jax.distributed.initialize()" in ended.err


@pytest.mark.parametrize("culprit", [0, 1], ids=["the coordinator's", "another"])
def test_a_rank_that_raises_is_the_failure_although_jax_waits_at_exit_for_the_others(jax, culprit):
    (jax.directory / "train.py").write_text(RAISES)

    ended = jax.run("flota", "--nproc_per_node", "2", "--grace", "5", "train.py", str(culprit))

    assert ended.code == 1
    assert f"rank {culprit} failed first: exit code 1 (KeyError)" in ended.err
    assert ended.left == []


@needs_lab
def test_processes_on_two_hosts_find_each_other_and_train_as_one(tmp_path, loss):
    with Lab(2) as lab:
        job = Job("jax", lab, tmp_path, "jax_data_parallel.py")

        job.start([1, 2], "--nnodes", 2, "--nproc_per_node", 1, "--master", MASTER)

        job.finish()
        assert job.results() == {rank: [f"RESULT rank={rank} world=2 total=3.0 loss={loss}"] for rank in (0, 1)}
