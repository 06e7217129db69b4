"""What holds for cold workers holds for warm ones: the same tests, with workers that are forks of one interpreter."""

from __future__ import annotations

import re

import pytest

from tests import launching
from tests.processes.test_endings import *  # noqa: F403
from tests.processes.test_orphans import *  # noqa: F403
from tests.processes.test_output import *  # noqa: F403
from tests.processes.test_preemption import *  # noqa: F403

del test_the_blocks_of_a_start_read_as_in_paddles_documents  # noqa: F821  there is one setting more in the first


# Their programs are no Python scripts.
COLD = (
    "test_workers_do_not_inherit_pythons_ignored_sigpipe",
    "test_a_job_that_only_runs_true_succeeds",
    "test_a_program_that_cannot_be_run_is_not_restarted",
)
# The signal goes to the whole group.
LOST = ("test_no_process_survives_a_signal_during_the_start",)


@pytest.fixture(autouse=True)
def _warm(monkeypatch, request, tmp_path):
    monkeypatch.setitem(launching.also, "FLOTA_WARM", "decimal")
    yield
    said = "".join(path.read_text(errors="replace") for path in tmp_path.glob("log/*.log"))
    # A job may be over before flota has said that it was forked; but when it was not, flota has said so first.
    assert request.node.originalname in COLD + LOST or not re.search("cold start:|start is cold", said)
