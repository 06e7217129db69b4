"""JAX: `jax.distributed.initialize()` without arguments."""

from __future__ import annotations

import pytest

from .conftest import Peer, fact, results, script

pytestmark = pytest.mark.real


@pytest.fixture
def jax(tmp_path):
    return Peer("jax", tmp_path)


def test_processes_find_each_other_without_arguments_and_train_as_one(jax):
    alone = jax.run("python", script("jax_data_parallel.py"), "alone")
    assert alone.code == 0, alone.err
    [expected] = results(alone.out)

    jax.flota("--framework", "jax", "--nproc_per_node", "2", script("jax_data_parallel.py"))

    for rank in (0, 1):
        [result] = jax.results(rank)
        assert (fact(result, "rank"), fact(result, "world")) == (str(rank), "2")
        assert fact(result, "total") == "3.0"
        assert fact(result, "loss") == fact(expected, "loss")
