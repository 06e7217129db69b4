"""The options of flota.spawn to a job, and the errors that its callers can meet."""

from __future__ import annotations

import ast
import errno
import pickle

import pytest

from flota.errors import RefusedFlag, RepeatedDevice, UnknownDevice, UnknownPlaceholder
from flota.errors.spawning import (
    BadOption,
    CannotStartNode,
    DevicesDoNotFit,
    OtherDevices,
    TooFewDevices,
    UnknownOption,
    WorkerFailed,
)
from flota.spawning.options import OPTIONS, read_options

FOUR = {"CUDA_VISIBLE_DEVICES": "4,5,6,7"}


def options_of(nprocs=-1, environ=FOUR, **options):
    return read_options("train", nprocs, options, environ)


@pytest.mark.parametrize(
    ("nprocs", "options", "workers", "chosen"),
    [
        (-1, {}, 4, ("4", "5", "6", "7")),
        (2, {}, 2, ("4", "5")),
        (1, {}, 1, ("4",)),
        (4, {}, 4, ("4", "5", "6", "7")),
        (6, {"devices": "cpu"}, 6, ()),
        (2, {"gpus": "4,5"}, 2, ("4", "5")),
        (-1, {"gpus": [7, 4]}, 2, ("7", "4")),
        (-1, {"devices": 6}, 1, ("6",)),
        (3, {"devices": "cpu"}, 3, ()),
    ],
)
def test_workers_and_their_devices(nprocs, options, workers, chosen):
    made = options_of(nprocs, **options)

    assert made.spec.workers == workers
    assert made.spec.devices.chosen == chosen


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"gpu": "1"}, UnknownOption, "flota.spawn has no option `gpu`"),
        ({"selected_devices": "1"}, UnknownOption, "`selected_devices`"),
        (
            {"nprocs": 0},
            BadOption,
            "invalid value `0` for nprocs: expected a number from 1 to 10000, or -1 for all devices",
        ),
        ({"nprocs": True}, BadOption, "`True`"),
        ({"nprocs": "2"}, BadOption, "`'2'`"),
        ({"nprocs": 3, "gpus": "4,5"}, DevicesDoNotFit, "nprocs=3, but gpus names 2 devices: `4,5`"),
        ({"nprocs": 1, "gpus": "4,5"}, DevicesDoNotFit, "nprocs=1, but gpus names 2 devices: `4,5`"),
        ({"gpus": "0,1"}, UnknownDevice, "unknown gpu device `0`: this machine has `4,5,6,7`"),
        ({"gpus": "4,4"}, RepeatedDevice, "gpus names `4` twice"),
        ({"gpus": "4", "devices": "5"}, RefusedFlag, "cannot use `devices`: gpus is given as well"),
        (
            {"start_method": "thread"},
            BadOption,
            "invalid value `'thread'` for start_method: expected one of spawn, fork, forkserver",
        ),
        ({"ips": "10.0.0.1,10.0.0.2"}, RefusedFlag, "cannot use `ips`: flota.spawn starts workers on one machine"),
        ({"backend": "mpi"}, BadOption, "for backend: expected one of auto, gloo"),
        ({"framework": "caffe"}, BadOption, "for framework: expected one or more of torch"),
        ({"timeout": -1}, BadOption, "invalid value `-1` for timeout: expected a duration"),
        ({"grace": "soon"}, BadOption, "invalid value `'soon'` for grace: expected a duration"),
        ({"nprocs": 6}, TooFewDevices, "nprocs=6, but only 4 devices are visible: `4,5,6,7`"),
        ({"xpus": "4,5"}, OtherDevices, "xpus: no such device is visible, only gpu devices: `4,5,6,7`"),
        ({"gpus": {}}, BadOption, "invalid value `{}` for gpus: expected devices"),
        ({"gpus": ""}, BadOption, "invalid value `''` for gpus: expected devices"),
        ({"gpus": []}, BadOption, "invalid value `[]` for gpus: expected devices"),
        ({"gpus": [4, 5.5]}, BadOption, "invalid value `[4, 5.5]` for gpus: expected devices"),
        ({"framework": {}}, BadOption, "invalid value `{}` for framework: expected a value other than a dictionary"),
        ({"log_dir": ""}, BadOption, "invalid value `''` for log_dir: expected a directory"),
        ({"log_dir": 5}, BadOption, "invalid value `5` for log_dir: expected a directory"),
        ({"log_dir": "{x}"}, UnknownPlaceholder, "log_dir `{x}`: `{x}` is not a placeholder"),
        ({"ips": "no host"}, BadOption, "invalid value `'no host'` for ips: expected a host"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(options, error, words):
    with pytest.raises(error) as caught:
        options_of(**options)

    assert words in caught.value.message
    assert caught.value.hint
    assert str(caught.value) == f"{caught.value.message}\nhint: {caught.value.hint}"
    assert "--" not in str(caught.value) or "`flota --" in caught.value.hint
    for example in examples_in(caught.value.hint):
        ast.parse(example)


def examples_in(hint):
    """What it says to write."""
    return hint.removeprefix("for example ").split(" or ") if hint.startswith("for example ") else []


def test_none_is_as_if_it_had_not_been_given():
    made, plain = options_of(**dict.fromkeys(OPTIONS)), options_of()

    assert made == plain._replace(spec=plain.spec._replace(run_id=made.spec.run_id))
    assert made.spec.run_id != plain.spec.run_id


def test_gpus_are_found_beside_other_devices():
    made = options_of(environ={**FOUR, "XPU_VISIBLE_DEVICES": "0,1"}, gpus="5")

    assert (made.spec.devices.kind, made.spec.devices.chosen) == ("gpu", ("5",))


def test_devices_where_there_are_none_are_an_error():
    hidden = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "XPU_VISIBLE_DEVICES"), "")

    with pytest.raises(UnknownDevice, match="unknown device `4`: this machine has no devices") as caught:
        options_of(2, environ=hidden, gpus="4,5")

    assert caught.value.hint == "leave gpus out, or write devices='cpu'"


def test_options_are_taken_in_pythons_words():
    made = options_of(2, framework=["torch", "jax"], backend="nccl", timeout="2m", log_dir="out", with_rank=1)

    assert made.spec.frameworks == ("torch", "jax")
    assert (made.spec.backend, made.timeout, made.with_rank) == ("nccl", 120.0, True)
    assert made.spec.log.directory.endswith("/out")
    assert made.spec.log.directory.endswith("/out")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files\nhint: run `ulimit -n 65536` first"),
        (OSError(errno.EAGAIN, "Try again"), "Try again\nhint: check `ulimit -u` and `free -m`"),
        (RuntimeError("can't start new thread"), "can't start new thread\nhint: check `ulimit -u`"),
    ],
)
def test_what_there_is_too_little_of_is_named(error, words):
    assert str(CannotStartNode(error)).startswith(f"cannot start a process: {words}")


def test_an_error_comes_whole_out_of_another_process():
    failed = WorkerFailed("rank 1 failed", 1, -9, "Traceback …", "")

    again = pickle.loads(pickle.dumps(failed))

    assert type(again) is WorkerFailed
    assert (str(again), again.rank, again.exit_code, again.signal, again.traceback) == (
        "rank 1 failed",
        1,
        137,
        9,
        "Traceback …",
    )


def test_values_come_whole_out_of_another_process():
    made = options_of(2).spec

    assert pickle.loads(pickle.dumps(made)) == made
