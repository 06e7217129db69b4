"""A real mpirun starts the nodes: one per host, or one per rank. It reaches the other hosts over ssh."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.lab import Lab, missing
from tests.lab.sshd import Sshd, missing_ssh
from tests.launching import environment
from tests.netns.test_slurm import FLOTA, SHOWS, ranks

MPIRUN = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")
REASON = missing() or missing_ssh() or ("" if MPIRUN else "no mpirun: the package `openmpi` has one")
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


@pytest.fixture(scope="module")
def mpirun(tmp_path_factory):
    """Runs mpirun on host 1."""
    with Lab(2) as lab:
        sshd = Sshd(lab.hosts, tmp_path_factory.mktemp("ssh"))
        agent = sshd.config.with_name("agent")
        agent.write_text(f'#!/bin/sh\nexec ssh -F {sshd.config} "$@"\n')
        agent.chmod(0o755)

        def run(*words, cwd):
            options = ["--allow-run-as-root", "--prtemca", "plm_ssh_agent", agent, "--prtemca", "if_include", "eth0"]
            return lab.host(1).run([MPIRUN, *options, *words], cwd=cwd, timeout=120, env=environment())

        yield run


@pytest.fixture
def here(tmp_path):
    (tmp_path / "shows.py").write_text(SHOWS)
    return tmp_path


def test_one_process_per_host_is_a_node_each(mpirun, here):
    result = mpirun("--host", "host1,host2", "-N", 1, *FLOTA, "--nproc_per_node", 2, "shows.py", cwd=here)

    assert result.returncode == 0, result.stderr
    found = [(one["RANK"], one["LOCAL_RANK"], one["NODE_RANK"], one["host"]) for one in ranks(here)]
    assert found == [
        ("0", "0", "0", "host1"),
        ("1", "1", "0", "host1"),
        ("2", "0", "1", "host2"),
        ("3", "1", "1", "host2"),
    ]


def test_one_process_per_rank_has_mpiruns_ranks(mpirun, here):
    result = mpirun("--host", "host1:2,host2:2", "-N", 2, *FLOTA, "shows.py", cwd=here)

    assert result.returncode == 0, result.stderr
    found = [(one["RANK"], one["LOCAL_RANK"], one["LOCAL_WORLD_SIZE"], one["host"]) for one in ranks(here)]
    assert found == [
        ("0", "0", "2", "host1"),
        ("1", "1", "2", "host1"),
        ("2", "0", "2", "host2"),
        ("3", "1", "2", "host2"),
    ]


def test_a_failure_is_mpiruns_exit_code_and_one_report(mpirun, here):
    result = mpirun("--host", "host1,host2", "-N", 1, *FLOTA, "shows.py", "1", cwd=here)

    assert result.returncode == 7, result.stderr
    assert (result.stdout + result.stderr).count("rank 1 on host2 failed first: exit code 7") == 1
