"""TensorFlow: MultiWorkerMirroredStrategy, which reads TF_CONFIG."""

from __future__ import annotations

import pytest

from tests.lab import Lab

from .conftest import Peer, fact, script
from .over_hosts import MASTER, Job, needs_lab

pytestmark = pytest.mark.real


@pytest.fixture
def tensorflow(tmp_path):
    return Peer("tensorflow", tmp_path)


def test_mirrored_workers_reduce_and_train_together(tensorflow):
    tensorflow.flota("--nproc_per_node", "2", script("tensorflow_mirrored.py"))

    check_trained_together(tensorflow.results(0), tensorflow.results(1))


@needs_lab
def test_mirrored_workers_on_two_hosts_reduce_and_train_together(tmp_path):
    with Lab(2) as lab:
        job = Job("tensorflow", lab, tmp_path, "tensorflow_mirrored.py")

        job.start([1, 2], "--nnodes", 2, "--nproc_per_node", 1, "--master", MASTER)

        job.finish()
        check_trained_together(*job.results().values())


def check_trained_together(first_told, second_told):
    [first], [second] = first_told, second_told
    assert (fact(first, "rank"), fact(second, "rank")) == ("0", "1")
    for result in (first, second):
        assert (fact(result, "world"), fact(result, "total")) == ("2", "3.0")
    assert fact(first, "losses") == fact(second, "losses")
    losses = [float(loss) for loss in fact(first, "losses").split(",")]
    assert losses == sorted(set(losses), reverse=True)
    assert losses[-1] < losses[0] / 2
