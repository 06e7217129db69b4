"""torch: the same scripts under flota and under torchrun."""

from __future__ import annotations

import json
import os

import pytest

from .conftest import Peer, fact, results, script

pytestmark = pytest.mark.real

KILLED = 50 if os.environ.get("FLOTA_SOAK") else 1
# By itself MKL, and so torch, takes no more threads than the machine has cores, whatever it is told.
ANY_NUMBER_OF_THREADS = {"MKL_DYNAMIC": "FALSE"}


@pytest.fixture
def torch(tmp_path):
    return Peer("torch", tmp_path)


@pytest.fixture(scope="module")
def torchrun_result(tmp_path_factory):
    """What DDP comes to under torchrun."""
    torch = Peer("torch", tmp_path_factory.mktemp("torchrun"))
    ended = torch.run("torchrun", "--nproc-per-node", "2", "--local-ranks-filter", "0", script("ddp.py"))
    assert ended.code == 0, ended.err
    [result] = results(ended.out)
    return result


def test_ddp_comes_to_the_same_loss_as_under_torchrun(torch, torchrun_result):
    ended = torch.flota("--nproc_per_node", "2", script("ddp.py"))

    assert fact(torchrun_result, "world") == "2"
    assert results(ended.out) == [torchrun_result]
    assert torch.results(1) == [torchrun_result]


@pytest.mark.parametrize("_number", range(KILLED))
def test_a_killed_rank_resumes_with_the_same_loss(torch, torchrun_result, _number):
    ended = torch.flota(
        "--nproc_per_node", "2", "--max_restart", "2", script("ddp.py"), "--checkpoint", "state.pt", "--killed-at", "5"
    )

    assert results(ended.out) == [torchrun_result]
    assert "rank 1 failed: SIGKILL" in ended.err
    assert "restarting (1 of 2)" in ended.err
    assert [line for line in torch.said(1).splitlines() if line.startswith("START")] == [
        "START rank=1 attempt=0 step=0",
        "START rank=1 attempt=1 step=5",
    ]
    report = torch.report()
    assert (report["verdict"], report["attempt"], report["rounds"]) == ("succeeded", 1, 2)


def test_the_failure_report_shows_what_record_wrote(torch):
    ended = torch.run("flota", "--nproc_per_node", "2", script("recorded_failure.py"))

    assert ended.code == 1
    assert ended.left == []
    assert "torn" not in torch.said(1)
    recorded = json.loads((torch.directory / "log" / "error.1.json").read_text())
    traceback = recorded["message"]["extraInfo"]["py_callstack"].splitlines()
    assert "ValueError: shard-00017 is torn" in traceback
    [failure] = torch.report()["failures"]
    assert failure["rank"] == 1
    assert failure["said"] == traceback
    for line in traceback:
        assert line in ended.err


def test_torch_launch_gives_the_local_rank_as_torchs_own_does(torch):
    words = ("--nproc_per_node", "2", script("local_rank_argument.py"), "--epochs", "3")

    launched = torch.run("python", "-m", "torch.distributed.launch", "--local-ranks-filter", "1", *words)
    ended = torch.run("python", "-m", "flota.torch_launch", *words)

    assert (launched.code, ended.code) == (0, 0), launched.err + ended.err
    assert ended.left == []
    [expected] = results(launched.out)
    assert torch.results(1) == [expected]
    assert expected == "RESULT rank=1 argument=1 variable=1 epochs=3 sum=1"


def test_torch_launch_with_use_env_inserts_no_argument(torch):
    ended = torch.run(
        "python", "-m", "flota.torch_launch", "--use-env", "--nproc_per_node", "2", script("local_rank_argument.py")
    )

    assert ended.code == 0, ended.err
    assert torch.results(1) == ["RESULT rank=1 argument=None variable=1 epochs=None sum=1"]


def test_torch_computes_with_a_fair_share_of_the_cpus(torch):
    torch.flota("--nproc_per_node", "2", script("threads.py"), **ANY_NUMBER_OF_THREADS)

    share = max(1, len(os.sched_getaffinity(0)) // 2)
    assert torch.results(0) == torch.results(1) == [f"RESULT threads={share}"]


def test_torch_computes_with_as_many_threads_as_asked_for(torch):
    words = ("--nproc_per_node", "2", script("threads.py"))

    torch.flota("--log_dir", "flag", "--threads", "3", *words, **ANY_NUMBER_OF_THREADS)
    torch.flota("--log_dir", "variable", *words, **ANY_NUMBER_OF_THREADS, OMP_NUM_THREADS="4")

    assert torch.results(1, "flag") == ["RESULT threads=3"]
    assert torch.results(1, "variable") == ["RESULT threads=4"]
