"""Every cell of the tables is decided: the supervisor's, the coordinator's and the follower's."""

from __future__ import annotations

from itertools import product
from typing import get_args

from flota.cluster import coordinator, follower
from flota.cluster.job_state import PHASES as JOB_PHASES
from flota.cluster.questions import QUESTIONS, ROWS
from flota.job.survey_outcomes import Outcome
from flota.supervise.events import Event
from flota.supervise.supervisor import PHASES, TABLE


def test_every_event_is_decided_in_every_phase():
    assert set(TABLE) == set(product(PHASES, get_args(Event)))


def test_the_coordinator_decides_every_finding_in_every_phase():
    assert set(coordinator.TABLE) == set(product(JOB_PHASES, coordinator.FINDINGS))
    assert all(map(callable, coordinator.TABLE.values()))


def test_the_rows_of_the_coordinator_are_its_findings_in_order():
    assert list(coordinator._ROWS) == list(coordinator.FINDINGS)
    assert all(map(callable, coordinator.FINDINGS.values()))


def test_no_row_of_the_coordinator_is_empty_and_nothing_follows_the_end():
    cells = {finding: {coordinator.TABLE[phase, finding] for phase in JOB_PHASES} for finding in coordinator.FINDINGS}

    assert all(own - {coordinator.nothing} for own in cells.values())
    assert all(coordinator.TABLE["ended", finding] is coordinator.nothing for finding in coordinator.FINDINGS)


def test_every_outcome_of_a_question_has_a_handler():
    assert set(coordinator.OUTCOMES) == set(get_args(Outcome))
    assert all(map(callable, coordinator.OUTCOMES.values()))


def test_the_follower_decides_every_situation_with_and_without_workers():
    assert set(follower.TABLE) == set(product(follower.SITUATIONS, (False, True)))
    assert all(map(callable, follower.TABLE.values()))


def test_every_question_has_one_row():
    assert len(QUESTIONS) == len(ROWS)
    assert all(row.urgent for row in ROWS if row.ends_round), "beside a running round none ends it"
