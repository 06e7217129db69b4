"""flota.env(): who a worker is, whoever started it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flota.errors.worker import BadVariable
from flota.worker.environment import Env, read_env

DUMPS = Path(__file__).parents[2] / "contracts" / "dumps"
FLOTA = {
    "FLOTA_RANK": "5",
    "FLOTA_LOCAL_RANK": "1",
    "FLOTA_WORLD_SIZE": "8",
    "FLOTA_LOCAL_WORLD_SIZE": "4",
    "FLOTA_NODE_RANK": "1",
    "FLOTA_NODES": "2",
    "FLOTA_DEVICE": "3",
    "FLOTA_ROLE": "trainer",
    "FLOTA_ATTEMPT": "2",
    "FLOTA_JOB_ID": "night",
    "FLOTA_MASTER": "10.0.0.1:40003",
}
PADDLE_SPAWN = {
    "PADDLE_TRAINER_ID": "1",
    "PADDLE_CURRENT_ENDPOINT": "127.0.0.1:7001",
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:7000,127.0.0.1:7001",
}


def given_by(dump, worker):
    """What a launcher really gave one of its workers."""
    return json.loads((DUMPS / f"{dump}.json").read_text())["workers"][worker]["set_or_changed"]


def test_a_process_without_a_launcher_is_rank_0_of_1():
    assert read_env({"HOME": "/root"}) == Env(
        rank=0,
        local_rank=0,
        world_size=1,
        local_world_size=1,
        node_rank=0,
        nodes=1,
        device="",
        role="trainer",
        attempt=0,
        job_id="default",
        master="",
    )


def test_flotas_own_variables():
    assert read_env(FLOTA) == Env(
        rank=5,
        local_rank=1,
        world_size=8,
        local_world_size=4,
        node_rank=1,
        nodes=2,
        device="3",
        role="trainer",
        attempt=2,
        job_id="night",
        master="10.0.0.1:40003",
    )


def test_flotas_variables_win_over_those_that_it_gives_to_frameworks():
    found = read_env({**FLOTA, "RANK": "0", "WORLD_SIZE": "1", "PADDLE_TRAINER_ID": "0"})

    assert (found.rank, found.world_size) == (5, 8)


GIVEN = {
    **FLOTA,
    "RANK": "5",
    "WORLD_SIZE": "8",
    "TORCHELASTIC_USE_AGENT_STORE": "False",
    "PADDLE_TRAINER_ID": "5",
    "PADDLE_TRAINERS_NUM": "8",
}
GIVEN["FLOTA_GIVEN"] = ",".join(GIVEN)


@pytest.mark.parametrize(
    ("changed", "rank", "world", "master"),
    [
        ({}, 5, 8, "10.0.0.1:40003"),
        (given_by("torch_standalone", "1/1/0"), 1, 2, "localhost:44653"),
        ({"RANK": "3", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, 3, 8, "a:1"),
        ({"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, 5, 8, "a:1"),
        (given_by("paddle_collective_cpu_1node", 1), 1, 2, "127.0.0.1:57284"),
        (PADDLE_SPAWN, 1, 2, "127.0.0.1:7000"),
        ({"FLOTA_GIVEN": GIVEN["FLOTA_GIVEN"].replace("RANK", "SHIP"), "RANK": "3"}, 5, 8, "10.0.0.1:40003"),
        ({"FLOTA_GIVEN": f"{GIVEN['FLOTA_GIVEN']},TRAINING_ROLE", "PADDLE_TRAINERS_NUM": "2"}, 5, 8, "10.0.0.1:40003"),
    ],
    ids=[
        "nobody else",
        "torchrun",
        "by hand",
        "torchrun with the same numbers",
        "paddle",
        "paddle's spawn",
        "somebody before flota",
        "parameter servers",
    ],
)
def test_a_launcher_that_a_worker_starts_is_nearer_than_flota(changed, rank, world, master):
    found = read_env({**GIVEN, **changed})

    assert (found.rank, found.world_size, found.master) == (rank, world, master)


def test_torchruns_variables():
    given = given_by("torch_standalone", "1/1/0")

    assert read_env(given) == Env(
        rank=1,
        local_rank=1,
        world_size=2,
        local_world_size=2,
        job_id="440d8996-44fd-43c3-b010-f2ae4103120d",
        master="localhost:44653",
    )


def test_torchruns_restarts_are_attempts():
    assert read_env(given_by("torch_restart", "0/0/1")).attempt == 1


@pytest.mark.parametrize(("name", "role"), [("default", "trainer"), ("actor", "actor")])
def test_torchruns_nameless_role_is_the_trainers(name, role):
    assert read_env({"RANK": "0", "WORLD_SIZE": "1", "ROLE_NAME": name}).role == role


def test_workers_started_by_hand_for_torch_have_a_machine_each():
    found = read_env({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "fd77::1", "MASTER_PORT": "29500"})

    assert (found.local_rank, found.local_world_size, found.node_rank, found.nodes) == (0, 1, 1, 2)
    assert found.master == "[fd77::1]:29500"


def test_a_rank_without_a_world_size_is_ignored():
    assert read_env({"RANK": "captain"}) == Env()


def test_paddles_variables():
    given = given_by("paddle_collective_cpu_1node", 1)

    assert read_env(given) == Env(
        rank=1, local_rank=1, world_size=2, local_world_size=2, device="cpu", master="127.0.0.1:57284"
    )


def test_paddles_device_is_a_place_in_the_visible_ones():
    given = given_by("paddle_collective_gpu_env_gpus_flag", 0)

    assert read_env(given).device == "6"


def test_the_second_node_of_paddles_launcher():
    given = {**given_by("paddle_collective_cpu_1node", 1), "PADDLE_TRAINER_ID": "3", "PADDLE_TRAINERS_NUM": "4"}
    given["PADDLE_NNODES"] = "2"

    found = read_env(given)

    assert (found.rank, found.local_rank, found.node_rank, found.nodes) == (3, 1, 1, 2)


def test_paddles_spawn_tells_less():
    found = read_env(PADDLE_SPAWN)

    assert (found.rank, found.local_rank, found.world_size, found.local_world_size) == (1, 1, 2, 2)
    assert (found.node_rank, found.nodes, found.master) == (0, 1, "127.0.0.1:7000")


@pytest.mark.parametrize(
    ("visible", "alone", "second"),
    [("4,5", "4,5", "5"), ("GPU-a, GPU-b", "GPU-a,GPU-b", "GPU-b"), ("", "cpu", "cpu"), ("-1", "cpu", "cpu")],
)
def test_devices_from_the_list_of_visible_ones(visible, alone, second):
    pair = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}

    assert read_env({"CUDA_VISIBLE_DEVICES": visible}).device == alone
    assert read_env({**pair, "CUDA_VISIBLE_DEVICES": visible}).device == second


@pytest.mark.parametrize("name", ["FLOTA_RANK", "FLOTA_WORLD_SIZE"])
def test_a_variable_that_is_not_a_number_is_named(name):
    with pytest.raises(
        BadVariable,
        match=f"invalid value `two` for the variable {name}: expected a whole number, [01] or more\nhint: run `unset {name}`",
    ):
        read_env({**FLOTA, name: "two"})


@pytest.mark.parametrize(
    "given",
    [
        {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "0"},
        {"RANK": "0", "WORLD_SIZE": "0"},
        {"PADDLE_TRAINER_ID": "0", "PADDLE_TRAINERS_NUM": "0"},
        {"PADDLE_TRAINER_ID": "0", "PADDLE_TRAINERS_NUM": "2", "PADDLE_LOCAL_SIZE": "0"},
        {"FLOTA_RANK": "0", "FLOTA_LOCAL_WORLD_SIZE": "0"},
    ],
)
def test_a_world_size_of_0_is_refused(given):
    with pytest.raises(BadVariable, match=r"invalid value `0` for .*: expected a whole number, 1 or more"):
        read_env(given)
