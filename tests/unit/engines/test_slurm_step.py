"""What flota finds out inside a Slurm job, and the command with which it starts a step there."""

from __future__ import annotations

import pytest

from flota.engines import slurm_step
from flota.engines.slurm_step import find_end_time, step_command
from flota.errors.engines import NotInSlurm


def test_the_end_of_the_job_is_known_from_slurm_alone():
    assert find_end_time("--stop-before", {"SLURM_JOB_END_TIME": "1700000000"}) == 1.7e9
    with pytest.raises(NotInSlurm, match="a Slurm job"):
        find_end_time("--stop-before", {})


def test_srun_needs_an_allocation():
    with pytest.raises(NotInSlurm, match="--srun needs the shell or the batch script of a Slurm job"):
        step_command(("train.py",), "flota", {})


def test_a_step_of_a_heterogeneous_job_has_a_part_per_component():
    nodes = {"SLURM_HET_SIZE": "2", "SLURM_JOB_NUM_NODES_HET_GROUP_0": "1", "SLURM_JOB_NUM_NODES_HET_GROUP_1": "3"}
    words = step_command(("train.py",), "flota", nodes)

    first, second = words[1 : words.index(":")], words[words.index(":") + 1 :]
    assert first[:3] == ["--het-group=0", "--nodes=1", "--ntasks=1"]
    assert second[:3] == ["--het-group=1", "--nodes=3", "--ntasks=3"]
    assert first[3:] == second[3:]


def test_where_no_variable_has_it_the_end_is_squeues_first_of_all_components(monkeypatch):
    monkeypatch.setattr(slurm_step, "run_tool", lambda _: "2026-01-02T03:04:05\n2026-01-02T03:00:00\n")
    first = find_end_time("--stop-before", {"SLURM_JOB_ID": "7"})
    monkeypatch.setattr(slurm_step, "run_tool", lambda _: "2026-01-02T03:00:00\n")

    assert first == find_end_time("--stop-before", {"SLURM_JOB_ID": "7"})


def test_a_job_without_a_time_limit_has_no_end(monkeypatch):
    monkeypatch.setattr(slurm_step, "run_tool", lambda _: "NONE\n")

    with pytest.raises(NotInSlurm, match="a time limit"):
        find_end_time("--stop-before", {"SLURM_JOB_ID": "7"})
