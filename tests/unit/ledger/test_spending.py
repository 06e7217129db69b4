"""Each label of the ledger, from scripted events."""

from __future__ import annotations

import pytest

from flota.ledger.page import PageTimes
from flota.ledger.spending import Account, lost_seconds
from tests.unit.ledger.scripted import Node, ledger_of, seconds

# A worker that called flota at 3 s, made its first step at 6 s and its sixth at 16 s, with a phase of 2 s.
STEPS = {
    "opened": 3.0,
    "first_at": 6.0,
    "last_at": 16.0,
    "marked_at": 16.0,
    "step_seconds": 8.0,
    "first_step": 0,
    "last_step": 5,
    "phases": {"checkpoint": 2.0},
}


def row_of(node: Node, rank: int = 0, now: float | None = None) -> dict[str, float]:
    return next(seconds(row) for row in ledger_of(node, now=now).ranks if row.rank == rank)


def test_a_job_without_calls_of_flota():
    node = Node()
    node.begin(1.0, workers=1)
    node.start(1.5, 0)
    node.exit(20.0, 0, output_at=4.0)
    node.end(20.25)

    assert row_of(node) == {"start": 1.5, "import": 2.5, "running": 16.0, "stopping": 0.25}


def test_without_output_a_worker_only_runs():
    node = Node()
    node.begin(1.0, workers=1)
    node.start(1.0, 0)
    node.exit(20.0, 0)
    node.end(20.0)

    assert row_of(node) == {"start": 1.0, "running": 19.0}


def test_import_initialise_steps_and_checkpoint():
    node = Node()
    node.begin(1.0, workers=1)
    node.start(1.0, 0)
    node.exit(20.0, 0, **STEPS)
    node.end(20.0)

    # A step takes 1.6 s, and the last one follows its heartbeat.
    assert row_of(node) == {
        "start": 1.0,
        "import": 2.0,
        "initialise": 3.0,
        "step": pytest.approx(9.6),
        "checkpoint": 2.0,
        "stopping": pytest.approx(2.4),
    }
    assert ledger_of(node).goodput == pytest.approx(0.48)


def test_output_before_the_first_call_ends_the_imports():
    node = Node()
    node.begin(1.0, workers=1)
    node.start(1.0, 0)
    node.exit(20.0, 0, **STEPS, output_at=2.0)
    node.end(20.0)

    assert (row_of(node)["import"], row_of(node)["initialise"]) == (1.0, 4.0)


def test_phases_before_the_first_step_are_not_part_of_the_initialisation():
    node = Node()
    node.begin(1.0, workers=1)
    node.start(1.0, 0)
    node.exit(20.0, 0, **{**STEPS, "phases_before": 1.0, "step_seconds": 9.0, "phases": {"load data": 2.0}})
    node.end(20.0)

    assert (row_of(node)["initialise"], row_of(node)["load data"]) == (2.0, 2.0)


def test_the_wait_for_other_nodes_before_the_first_round():
    node = Node(nodes=2)
    node.begin(8.0, workers=1)
    node.start(8.5, 0)
    node.exit(20.0, 0)
    node.end(20.0)

    assert row_of(node) == {"wait for nodes": 8.0, "start": 0.5, "running": 11.5}


def test_imports_of_a_parked_interpreter_that_workers_wait_for():
    node = Node()
    node.begin(1.0, workers=1)
    node.start(5.25, 0, imported_at=1005.0, import_seconds=3.5)
    node.exit(20.0, 0)
    node.end(20.0)

    assert row_of(node) == {"start": 1.75, "import": 3.5, "running": 14.75}


def fail(node: Node, **stopped: object) -> None:
    """Rank 1 fails at 18 s, and rank 0 is asked to stop at 19 s."""
    node.begin(1.0)
    node.start(1.0, 0, 1)
    node.exit(18.0, 1, 3, **STEPS)
    node.add(19.0, "stopping_workers")
    node.exit(20.0, 0, -15, asked=True, **stopped)


def test_a_rank_waits_for_a_failed_one_until_it_is_asked_to_stop():
    node = Node()
    fail(node, **STEPS)
    node.end(20.5)

    stopped, failed = row_of(node, 0), row_of(node, 1)

    assert (stopped["lost work"], stopped["stalled"], stopped["stopping"]) == (2.0, 1.0, 1.5)
    assert (failed["lost work"], failed["stopping"]) == (2.0, 2.5)


def test_an_open_phase_ends_with_the_failure_of_another_rank():
    node = Node()
    fail(node, **{**STEPS, "phase": "checkpoint", "marked_at": 17.0})
    node.end(20.0)

    row = row_of(node, 0)

    assert (row["checkpoint"], row["lost work"], row["stalled"], row["stopping"]) == (3.0, 1.0, 1.0, 1.0)


def test_a_worker_that_dies_in_a_phase_was_in_that_phase():
    node = Node()
    node.begin(1.0, workers=1)
    node.start(1.0, 0)
    node.exit(20.0, 0, -9, **{**STEPS, "phase": "evaluate", "marked_at": 17.0})
    node.end(20.0)

    assert (row_of(node)["evaluate"], row_of(node)["lost work"]) == (3.0, 1.0)


def test_an_ignored_failure_stalls_no_rank():
    node = Node()
    node.begin(1.0)
    node.start(1.0, 0, 1)
    node.add(5.0, "worker_exited", rank=1, code=3, asked_to_stop=False, at=1005.0, ignored=True)
    node.add(19.0, "stopping_workers")
    node.exit(20.0, 0, -15, asked=True)
    node.end(20.0)

    assert row_of(node, 0) == {"start": 1.0, "running": 18.0, "stopping": 1.0}


def test_a_rank_that_is_done_waits_for_the_others():
    node = Node()
    node.begin(1.0)
    node.start(1.0, 0, 1)
    node.exit(10.0, 0)
    node.exit(30.0, 1)
    node.end(30.5)

    assert row_of(node, 0) == {"start": 1.0, "running": 9.0, "stalled": 20.0, "stopping": 0.5}


@pytest.mark.parametrize(
    ("times", "hang", "before"), [(STEPS, 14.0, {"step": 8.0}), ({"output_at": 2.0}, 10.0, {"running": 18.0})]
)
def test_a_hang_begins_with_the_last_sign_of_life(times, hang, before):
    node = Node()
    node.begin(1.0, workers=1)
    node.start(1.0, 0)
    node.add(30.0, "hang_found", suspects=[0], quiet_seconds=10.0)
    node.add(30.0, "stopping_workers")
    node.exit(31.0, 0, -6, asked=True, **times)
    node.end(31.5)

    row = row_of(node)

    assert (row["hang"], row["stopping"]) == (hang, 1.5)
    assert before.items() <= row.items()


def test_a_hang_inside_a_phase_begins_with_the_phase():
    node = Node()
    node.begin(1.0, workers=1)
    node.start(1.0, 0)
    node.add(30.0, "hang_found", suspects=[0])
    node.exit(31.0, 0, -6, asked=True, **{**STEPS, "phase": "checkpoint", "marked_at": 17.0})
    node.end(31.0)

    assert (row_of(node)["hang"], row_of(node)["checkpoint"], row_of(node)["lost work"]) == (13.0, 2.0, 1.0)


def restart(**second: object) -> Node:
    node = Node()
    fail(node, **{**STEPS, "saved_step": 2, "saved_seconds": 5.0})
    node.round(22.0, 1)
    node.start(22.5, 0, 1)
    for rank in (0, 1):
        times = {"opened": 23.0, "first_at": 24.0, "last_at": 30.0, "marked_at": 30.0, "step_seconds": 6.0}
        node.exit(30.0, rank, **{**times, "last_step": 9, **second})
    node.end(30.0)
    return node


@pytest.mark.parametrize(
    ("first_step", "lost"),
    [
        (3, 3.0),  # the step after the checkpoint: 8 s in steps, of which 5 s before it
        (2, 3.0),  # or the step of the checkpoint
        (0, 8.0),  # from the beginning
        (1, 5.5),  # between two steps that are known
        (6, 0.0),  # no step again
    ],
)
def test_steps_that_a_later_process_did_again_are_lost(first_step, lost):
    row = row_of(restart(first_step=first_step))

    assert row["lost work"] - 2.0 == pytest.approx(lost), "the unfinished step was lost as well"
    assert row["step"] == pytest.approx(14.0 - lost)


def test_the_time_between_two_rounds_is_that_of_the_restart():
    row = row_of(restart(first_step=6))

    assert (row["restart"], row["import"], row["initialise"]) == (2.5, 2.5, 4.0)


def test_a_round_that_waits_for_a_lost_node():
    node = Node(nodes=2)
    fail(node)
    node.add(22.0, "waiting_for_nodes", status="1 of 2 joined")
    node.round(60.0, 1)
    node.start(60.5, 0, 1)
    node.exit(70.0, 0)
    node.exit(70.0, 1)
    node.end(70.0)

    assert (row_of(node)["restart"], row_of(node)["wait for nodes"]) == (2.5, 39.0)


def test_servers_have_no_steps():
    node = Node()
    node.begin(1.0)
    node.start(1.0, 0)
    node.start(1.0, 0, role="server")
    node.exit(20.0, 0, **STEPS)
    node.add(21.0, "stopping_workers")
    node.exit(21.5, 0, -15, asked=True, role="server")
    node.end(21.5)

    trainer, server = (seconds(row) for row in ledger_of(node).ranks)

    assert server == {"start": 1.0, "running": 20.0, "stopping": 0.5}
    assert trainer["stalled"] == 1.0, "until the server was stopped"
    assert ledger_of(node).goodput == pytest.approx(9.6 / 21.5)


def test_a_worker_that_fails_before_its_first_step_was_initialising():
    node = Node()
    node.begin(1.0)
    node.start(1.0, 0, 1)
    node.exit(20.0, 1, **STEPS)
    node.exit(25.0, 0, 3, opened=4.0, marked_at=4.0)
    node.end(25.0)

    assert row_of(node, 0) == {"start": 1.0, "import": 3.0, "initialise": 21.0}


def test_what_a_running_job_has_not_recorded_yet_is_running():
    node = Node()
    node.begin(1.0, workers=1)
    node.start(1.0, 0)
    node.progress(17.0, 0, **STEPS)

    assert row_of(node, now=20.0)["running"] == 4.0
    assert ledger_of(node, now=20.0).state == "running"


def test_what_a_killed_flota_has_not_recorded_is_unknown():
    node = Node()
    node.begin(1.0)
    node.start(1.0, 0, 1)
    node.progress(17.0, 0, **STEPS)
    node.exit(18.0, 1, 3)

    assert row_of(node)["unknown"] == 2.0
    assert ledger_of(node).state == "killed"


def test_an_account_never_spends_more_than_its_span():
    account = Account(10, 20)
    account.spend("a", 4)
    account.until(3, "b")
    account.spend("c", -5)
    account.spend("d", 1000)

    assert account.rest("e") == {"a": 4, "d": 6}


def test_lost_work_is_interpolated_between_the_pages_of_a_process():
    pages = tuple(
        PageTimes(first_at=1.0, first_step=0, last_step=step, step_seconds=spent)
        for step, spent in ((10, 10.0), (20, 90.0), (30, 100.0))
    )

    assert [lost_seconds(pages, step) for step in (0, 5, 10, 15, 25, 30, 31, 40)] == pytest.approx(
        [100.0, 95.0, 90.0, 50.0, 5.0, 0.0, 0.0, 0.0]
    )


def test_steps_that_start_again_in_each_epoch_do_not_show_what_was_lost():
    page = PageTimes(first_at=1.0, first_step=0, last_step=50, step_seconds=80.0, went_back=True)

    assert lost_seconds((page,), 10) == 0.0
