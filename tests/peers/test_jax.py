"""JAX: `jax.distributed.initialize()` without arguments."""

from __future__ import annotations

import pytest

from tests.lab import Lab

from .conftest import Peer, fact, results, script
from .over_hosts import MASTER, Job, needs_lab

pytestmark = pytest.mark.real


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


def test_processes_find_each_other_without_arguments_and_train_as_one(jax, loss):
    jax.flota("--framework", "jax", "--nproc_per_node", "2", script("jax_data_parallel.py"))

    for rank in (0, 1):
        assert jax.results(rank) == [f"RESULT rank={rank} world=2 total=3.0 loss={loss}"]


@needs_lab
def test_processes_on_two_hosts_find_each_other_and_train_as_one(tmp_path, loss):
    with Lab(2) as lab:
        job = Job("jax", lab, tmp_path, "jax_data_parallel.py")

        job.start([1, 2], "--framework", "jax", "--nnodes", 2, "--nproc_per_node", 1, "--master", MASTER)

        job.finish()
        assert job.results() == {rank: [f"RESULT rank={rank} world=2 total=3.0 loss={loss}"] for rank in (0, 1)}
