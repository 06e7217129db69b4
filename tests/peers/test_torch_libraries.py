"""What is built on torch's launcher: Hugging Face accelerate and Lightning, their scripts as they are."""

from __future__ import annotations

import pytest

from .conftest import Peer, fact, script

pytestmark = pytest.mark.real


@pytest.fixture
def torch(tmp_path):
    return Peer("torch", tmp_path)


def test_accelerate_trains_on_two_workers_with_one_loss(torch):
    torch.flota("--nproc_per_node", "2", script("accelerated.py"))

    [first], [second] = torch.results(0), torch.results(1)
    check_places(first, second)
    assert fact(first, "last") == fact(second, "last")
    assert float(fact(first, "last")) < float(fact(first, "first"))


def test_lightning_trains_on_two_workers_with_one_model(torch):
    torch.flota("--nproc_per_node", "2", script("lightning_module.py"))

    [first], [second] = torch.results(0), torch.results(1)
    check_places(first, second)
    assert fact(first, "after") == fact(second, "after")
    assert float(fact(first, "after")) < float(fact(first, "before"))


def check_places(*results):
    for rank, result in enumerate(results):
        assert (fact(result, "rank"), fact(result, "local"), fact(result, "world")) == (str(rank), str(rank), "2")
        # 64 rows in batches of 8 on two workers, three times over.
        assert fact(result, "steps") == "12"
