"""Crashes in real DDP trainings: gloo makes victims of all others, and the report names the culprit and its cause."""

from __future__ import annotations

import json
import os

import pytest

from tests.lab import Lab

from .conftest import Peer, script
from .over_hosts import MASTER, PATIENCE, Job, needs_lab

pytestmark = pytest.mark.real
SOAK = bool(os.environ.get("FLOTA_SOAK"))
CULPRIT = 2
# What is asked of the script; how the sentence goes on; the cause; the job's code.
KINDS = [
    ("raise", "failed first: exit code 1 (ValueError)", "exception", 1),
    ("loader", "failed first: exit code 1 (OSError)", "exception", 1),
    ("exit", "failed first: exit code 7", "exited", 7),
    ("leave", "exited too early: exit code 0 (while others were still running)", "left-early", 1),
    ("SIGKILL", "failed first: SIGKILL (killed by another process)", "killed", 137),
    ("SIGSEGV", "failed first: SIGSEGV (segmentation fault)", "segmentation-fault", 139),
    ("SIGABRT", "failed first: SIGABRT (aborted)", "aborted", 134),
    ("memory", "failed first: exit code 1 (the machine is out of memory)", "out-of-memory", 1),
]


def check(err: str, report: dict, host: str, sentence: str, cause: str) -> None:
    page = err[err.index("ABORT!!!") :].splitlines()
    first = report["failures"][0]
    assert page[1].startswith(f"rank {CULPRIT}{host} {sentence}"), err
    assert (first["rank"], first["cause"]) == (CULPRIT, cause)
    assert first["last_step"] in (2, 3), "a torn shard ends the third step, all else the fourth"
    assert [failure["rank"] for failure in report["failures"]] == [CULPRIT], report
    assert len(page) <= 25


@pytest.mark.parametrize(
    ("how", "sentence", "cause", "code"), [kind for kind in KINDS if SOAK or kind[0] in ("loader", "leave")]
)
def test_on_one_machine(flota, how, sentence, cause, code):
    python = Peer("torch", flota.directory).bin / "python"

    ended = flota.run(
        "--nproc_per_node", 4, "--python", python, script("ddp_faults.py"), how, CULPRIT, timeout=PATIENCE
    )

    report = json.loads((flota.directory / "log" / "report.json").read_text())
    assert ended.returncode == code, ended.stderr
    check(ended.stderr, report, "", sentence, cause)


@needs_lab
@pytest.mark.parametrize(
    ("how", "sentence", "cause", "code"),
    [kind for kind in KINDS if kind[0] in (("raise", "SIGKILL", "leave") if SOAK else ("SIGKILL",))],
)
def test_on_hosts_whose_clocks_are_wrong(tmp_path, how, sentence, cause, code):
    with Lab(3) as lab:
        job = Job("torch", lab, tmp_path, "ddp_faults.py", how, CULPRIT)
        for number, offset in ((1, 5), (2, -5), (3, 0)):
            flags = ("--python", job.python, "--nnodes", 3, "--nproc_per_node", 2, "--master", MASTER)
            job.on[number] = job.nodes.start(number, *flags, *job.trained, clock_offset=offset)

        codes = [node.wait(PATIENCE) for node in job.on.values()]

        report = json.loads((job.on[1].directory / "log" / "report.json").read_text())
        assert codes == [code] * 3, job.story()
        for node in job.on.values():
            check(node.err, report, " on host2", sentence, cause)
