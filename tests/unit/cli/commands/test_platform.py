"""`flota platform`: what was detected, by what, what follows, and what was detected as well."""

from __future__ import annotations

import json

import pytest

from flota.cli.commands.platform import as_json, describe, detect_here
from flota.errors import NoFirstHost
from tests.unit.test_platforms import CASES, variables


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def shown(case: str, **changes: str) -> list[str]:
    environ = variables(case, **changes)
    return describe(detect_here(environ), environ)


def test_settings_are_shown_with_their_variables():
    assert shown("slurm-srun-4-per-node-task7", FLOTA_GRACE="5s") == [
        "Slurm, recognized by SLURM_JOB_ID",
        "",
        "setting           value        from",
        "--nnodes          8            SLURM_STEP_NUM_TASKS",
        "--rank            7            SLURM_PROCID",
        "--master          gpu01:20002  SLURM_STEP_NODELIST",
        "--nproc_per_node  1            SLURM_STEP_NUM_TASKS",
        "--job_id          2.0          SLURM_JOB_ID",
        "--log_dir         log/2.0      SLURM_JOB_ID",
        "--grace           5s           FLOTA_GRACE",
        "local rank        3 of 4       Slurm",
        "CPUs              1            Slurm",
        "",
        "Slurm: 8 tasks on 2 machines, which join at gpu01:20002",
    ]


def test_platforms_that_lost_are_named_with_the_order():
    lines = shown("slurm-openmpi4-mpirun-rank3")

    text = " ".join(lines)
    assert "Also detected, and not used: Slurm. Open MPI comes first in the order PaddleCloud, Kubeflow," in text


def test_what_a_flag_overrules_is_shown():
    assert "Slurm: 2 nodes ignored because FLOTA_NNODES is given" in shown(
        "slurm-srun-1-per-node-task1", FLOTA_NNODES="1"
    )


def test_no_platform_is_an_answer():
    lines = shown("ssh-plain")

    assert lines[0] == "no platform"
    assert " ".join(lines).endswith("Slurm, LSF, PBS.")
    assert "worker of flota" in " ".join(shown("slurm-srun-1-per-node-task1", FLOTA_GIVEN="RANK"))
    assert json.loads(as_json(detect_here({})))["platform"] is None


def test_json_has_the_same():
    found = json.loads(as_json(detect_here(variables("skypilot-on-slurm-node1"))))

    assert (found["platform"], found["also_detected"]) == ("SkyPilot", ["Slurm"])
    assert found["settings"]["rank"] == {"value": "1", "from": "SKYPILOT_NODE_RANK"}
    assert found["order"][0] == "PaddleCloud"


@pytest.mark.parametrize("case", CASES)
def test_it_fits_on_one_screen(case):
    lines = shown(case)

    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_what_would_end_the_start_ends_this_as_well():
    with pytest.raises(NoFirstHost):
        shown("openmpi4-rank3", OMPI_MCA_orte_hnp_uri="")
