"""FLOTA_* variables that set nothing: a misspelled setting must not go unnoticed."""

from __future__ import annotations

import pytest

from flota.cli.build_spec import make_log_spec
from flota.cli.parse import Given
from flota.cli.settings import Settings, unknown_variables, without_parents_variables


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("FLOTA_NPROC", "unknown variable FLOTA_NPROC; did you mean FLOTA_NPROC_PER_NODE?"),
        ("FLOTA_LOGDIR", "unknown variable FLOTA_LOGDIR; did you mean FLOTA_LOG_DIR?"),
        ("FLOTA_TOKN", "unknown variable FLOTA_TOKN; did you mean FLOTA_TOKEN?"),
        ("FLOTA_ZZZ", "unknown variable FLOTA_ZZZ"),
        ("FLOTA_WORLD_SIZE", "unknown variable FLOTA_WORLD_SIZE"),
        ("FLOTA_DRY_RUN", "FLOTA_DRY_RUN has no effect; write --dry_run"),
    ],
)
def test_a_variable_that_sets_nothing_is_named_with_the_nearest_one(name, warning):
    assert unknown_variables({name: "1", "PATH": "/bin"}) == [warning]


@pytest.mark.parametrize(
    "name", ["NPROC_PER_NODE", "LOG_DIR", "NODE_RANK", "MAX_RESTARTS", "TOKEN", "TOKEN_FILE", "ETCD_USER", "RDZV_ID"]
)
def test_settings_and_secrets_are_known(name):
    assert unknown_variables({f"FLOTA_{name}": "1"}) == []


def test_empty_variables_and_those_of_a_parent_are_not_meant():
    environ = {"FLOTA_ZZZ": "", "FLOTA_WORLD_SIZE": "2", "FLOTA_GIVEN": "FLOTA_WORLD_SIZE"}

    assert unknown_variables(without_parents_variables(environ)) == []


def test_a_platform_may_set_that_all_nodes_share_one_console():
    assert make_log_spec(Settings({"shared_console": Given(value=True, source="SLURM_STEP_ID")})).shared_console
