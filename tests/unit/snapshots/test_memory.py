"""A node's memory for its ranks, and what each worker is given."""

from __future__ import annotations

import pytest

from flota.job.plan import Worker, WorkerPlan
from flota.snapshots.agreement import AgreedStep, RankSource
from flota.snapshots.memory import SnapshotMemory
from flota.worker.snapshot_files import SavedFile, write_state
from flota.worker.snapshot_memory import RankMemory
from flota.worker.snapshot_tree import Flattened


@pytest.fixture
def memory():
    memory = SnapshotMemory(None)
    yield memory
    memory.close()


def plans(*ranks, world=2):
    workers = [Worker(0, "trainer", rank, rank, world, rank, world, 0, (), (), "", "") for rank in ranks]
    return tuple(WorkerPlan(worker, {"FLOTA_GIVEN": "RANK"}) for worker in workers)


def save(plan, *steps, sharded=False):
    """What a worker does with its memory."""
    path = plan.env["FLOTA_SNAPSHOT"].rpartition(":")[0]
    for step in steps:
        state = Flattened()
        state.add_part("n", step)
        tree = state.to_json("train")
        RankMemory(path, 1 << 30, 1).write(
            step, state, tree, rank=plan.worker.rank, world=plan.worker.size, sharded=sharded
        )
    return path


def source_of(plan):
    return plan.env.get("FLOTA_SNAPSHOT_FROM", "")


def test_a_first_round_has_memory_and_nothing_to_load(memory):
    first = plans(0, 1)

    memory.begin_round(first)

    assert [source_of(plan) for plan in first] == ["", ""]
    assert len({plan.env["FLOTA_SNAPSHOT"] for plan in first}) == 2
    assert first[0].env["FLOTA_GIVEN"] == "RANK,FLOTA_SNAPSHOT"
    assert memory.held() == ()


def test_the_next_round_loads_the_step_that_all_have_and_forgets_later_ones(memory):
    first, second = plans(0, 1), plans(0, 1)
    memory.begin_round(first)
    paths = save(first[0], 4, 5, 6), save(first[1], 3, 4, 5)

    memory.begin_round(second)

    assert [source_of(plan) for plan in second] == [f"{path}:5:0" for path in paths]
    assert [held.steps for held in memory.held()] == [(4, 5), (3, 4, 5)]
    assert memory.news == ["snapshots: ranks continue from the state of step 5, 1 step before the newest one here"]


def test_the_limit_is_divided_among_ranks():
    memory = SnapshotMemory(1000)
    both = plans(0, 1)

    memory.begin_round(both)

    assert all(plan.env["FLOTA_SNAPSHOT"].endswith(":500") for plan in both)
    memory.close()


def test_states_of_ranks_that_have_moved_stay_for_those_who_load_them(memory):
    first, second = plans(0, 1), plans(2, 3, world=4)
    memory.begin_round(first)
    path = save(first[0], 4)
    agreed = (AgreedStep("trainer", 4, 2, others=tuple(RankSource(rank, 0) for rank in (1, 2, 3))),)

    memory.begin_round(second, agreed)

    assert [source_of(plan) for plan in second] == [f"{path}:4:0"] * 2


def test_a_sharded_state_comes_with_its_number_of_ranks(memory):
    first, second = plans(0, 1), plans(0, world=1)
    memory.begin_round(first)
    path = save(first[0], 4, sharded=True)
    save(first[1], 4, sharded=True)

    memory.begin_round(second)

    assert source_of(second[0]) == f"{path}:4:2"


def write_files(directory, *steps, rank, sharded):
    for step in steps:
        state = Flattened()
        state.add_part("n", step)
        file = SavedFile("train", "trainer", step, rank, 2)
        write_state(str(directory), file, state, state.to_json("train"), sharded=sharded)


@pytest.mark.parametrize("agreed", [None, (AgreedStep("trainer", 3, 2),)], ids=["alone", "several-nodes"])
def test_a_file_without_its_state_is_reported_and_an_older_one_is_loaded(tmp_path, agreed):
    write_files(tmp_path, 3, 4, rank=0, sharded=False)
    path = tmp_path / "train.trainer.4.0.2.snapshot"
    path.write_bytes(b"")
    memory = SnapshotMemory(None, str(tmp_path))
    first = plans(0, 1)

    memory.held()
    memory.begin_round(first, agreed)

    assert source_of(first[0]) == f"{tmp_path}/train.trainer.3.0.2.snapshot:3:0"
    assert memory.warnings == [f"snapshots: {path} is damaged: it is {path}.damaged now, and is not loaded"]
    memory.close()


def test_states_of_which_parts_are_missing_are_reported_once(tmp_path):
    write_files(tmp_path, 3, 4, rank=1, sharded=True)
    why = f"{tmp_path} has no step with the parts of all ranks (the newest part is of step 4)"

    for agreed in (None, ()):  # alone, and with other nodes
        memory = SnapshotMemory(None, str(tmp_path))
        for _ in range(2):
            memory.held()
            memory.begin_round(plans(0, 1), agreed)

        assert memory.warnings == [f"snapshots: starting from step 0: {why}"]
        assert len(list(tmp_path.iterdir())) == 2
        memory.close()
