"""TensorFlow: MultiWorkerMirroredStrategy, which reads TF_CONFIG."""

from __future__ import annotations

import pytest

from .conftest import Peer, fact, script

pytestmark = pytest.mark.real


@pytest.fixture
def tensorflow(tmp_path):
    return Peer("tensorflow", tmp_path)


def test_mirrored_workers_reduce_and_train_together(tensorflow):
    tensorflow.flota("--nproc_per_node", "2", script("tensorflow_mirrored.py"))

    [first], [second] = tensorflow.results(0), tensorflow.results(1)
    assert (fact(first, "rank"), fact(second, "rank")) == ("0", "1")
    for result in (first, second):
        assert (fact(result, "world"), fact(result, "total")) == ("2", "3.0")
    assert fact(first, "losses") == fact(second, "losses")
    losses = [float(loss) for loss in fact(first, "losses").split(",")]
    assert losses == sorted(set(losses), reverse=True)
    assert losses[-1] < losses[0] / 2
