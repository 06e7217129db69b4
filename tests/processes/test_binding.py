"""--bind: the CPUs and the memory policy that a worker has when its script begins."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

import flota as library
from flota.binding.modes import list_cpus
from flota.binding.topology import read_topology
from flota.host.affinity import can_prefer_memory
from flota.host.process_start import ProcessSpec
from flota.host.round import Round
from flota.supervise.events import StartFailed
from tests.guards.test_public_names import other_pythons
from tests.launching import wait_until

from . import functions

CPUS = sorted(os.sched_getaffinity(0))
SHOWS = """
import os

def first_policy():
    with open("/proc/self/numa_maps") as maps:
        return maps.readline().split()[1]

print(*sorted(os.sched_getaffinity(0)), os.environ.get("OMP_NUM_THREADS"), first_policy(), flush=True)
"""
CORES = read_topology().cores
needs_cores = pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
POLICY = "prefer" if can_prefer_memory() else "default"


@pytest.fixture
def train(flota):
    """A script that prints its CPUs, its number of threads and its memory policy."""
    script = flota.directory / "train.py"
    script.write_text(SHOWS)
    return script


def shown(flota, workers=2):
    """By worker: the CPUs, the number of threads and the memory policy of its last start."""
    rows = [flota.log(rank).splitlines()[-1].split() for rank in range(workers)]
    return [(list(map(int, cpus)), threads, policy.partition(":")[0]) for *cpus, threads, policy in rows]


def assert_shares(found):
    """Each CPU belongs to one worker."""
    (first, threads, policy), (second, _, _) = found
    assert sorted([*first, *second]) == CPUS
    assert threads == str(len(first))
    assert policy == POLICY


@needs_cores
@pytest.mark.parametrize("flags", [["--bind", "core"], ["--numa-binding=exclusive"]])
def test_each_worker_has_cores_of_its_own(flota, train, flags):
    ended = flota.run("--nproc_per_node", 2, *flags, train)

    assert ended.returncode == 0, ended.stderr
    assert_shares(shown(flota))


@needs_cores
def test_the_report_and_a_dry_run_name_the_cpus(flota, train):
    flags = ["--nproc_per_node", 2, "--bind", "core"]
    planned = json.loads(flota.run(*flags, "--dry-run", "--json", train).stdout)["workers"]
    table = flota.run(*flags, "--dry-run", train).stdout.splitlines()

    flota.run(*flags, train)

    report = json.loads((flota.directory / "log/report.json").read_text())
    bound = [(one["cpus"], one["memory_node"]) for one in report["bindings"]]
    assert bound == [(one["cpus"], one["memory_node"]) for one in planned]
    assert table[2].split()[:4] == ["rank", "devices", "cpus", "memory"]
    assert table[3].split()[2] == bound[0][0]
    assert [list_cpus(cpus) for cpus, _, _ in shown(flota)] == [cpus for cpus, _ in bound]


def test_without_the_flag_nothing_is_bound(flota, train):
    flota.run("--nproc_per_node", 2, train)

    assert [(cpus, policy) for cpus, _, policy in shown(flota)] == [(CPUS, "default")] * 2
    assert "bindings" not in json.loads((flota.directory / "log/report.json").read_text())


@needs_cores
def test_only_the_cpus_of_flota_itself_are_used(flota, train):
    only = CPUS[-1]

    flota.run("--bind", "numa", train, preexec_fn=lambda: os.sched_setaffinity(0, {only}))

    assert shown(flota, 1)[0][0] == [only]


def test_more_workers_than_cores_are_an_error_before_anything_starts(flota, train):
    ended = flota.run("--nproc_per_node", len(CORES) + 1, "--bind", "core", train)

    assert ended.returncode == 2
    assert "--bind core needs a core for each worker" in ended.stderr
    assert "hint: use --bind numa" in ended.stderr
    assert not (flota.directory / "log").exists()


@needs_cores
def test_the_shepherd_keeps_its_own_cpus(flota):
    running = flota.start("--nproc_per_node", 2, "--bind", "core", "sleeps.py")
    shepherd = running.shepherd()

    wait_until(lambda: sorted(os.sched_getaffinity(shepherd)) == CPUS, "the shepherd's CPUs")


@needs_cores
def test_forked_workers_are_bound(flota, train):
    ended = flota.run("--nproc_per_node", 2, "--bind", "core", "--warm", "decimal", train)

    assert "warm: workers are forked from one interpreter" in ended.stderr
    assert_shares(shown(flota))


@needs_cores
@pytest.mark.skipif("3.8" not in other_pythons(), reason="needs Python 3.8")
def test_forks_of_an_old_interpreter_are_bound(flota, train):
    asked = [other_pythons()["3.8"], "-c", "import sys; print(sys.executable)"]
    python = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

    ended = flota.run("--nproc_per_node", 2, "--bind", "core", "--warm", "decimal", "--python", python, train)

    assert "warm: workers are forked from one interpreter" in ended.stderr
    assert_shares(shown(flota))


@needs_cores
def test_parked_interpreters_are_bound(flota, train):
    (flota.directory / "jax.py").write_text("")
    waits = "import glob, sys, time, flota\nflota.heartbeat(1)\nREADY = '2 of 2 interpreters are ready'\n"
    waits += "while os.environ['FLOTA_ATTEMPT'] == '0':\n"
    waits += "    if any(READY in open(log).read() for log in glob.glob('log/default.*.log')): sys.exit(3)\n"
    waits += "    time.sleep(0.02)\n"
    train.write_text(f"import jax\n{SHOWS}{waits}")

    ended = flota.run("--nproc_per_node", 2, "--bind", "core", "--warm", "jax", "--max_restart", 1, train)

    assert ended.returncode == 0, ended.stderr
    assert flota.log(0).splitlines()[0] == flota.log(0).splitlines()[-1]
    assert_shares(shown(flota))


@needs_cores
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_functions_are_bound(method):
    first, second = library.spawn(functions.gives_cpus, nprocs=2, bind="core", start_method=method).results()

    assert sorted([*first, *second]) == CPUS
    assert sorted(os.sched_getaffinity(0)) == CPUS


def test_a_cpu_that_is_gone_is_a_failed_start():
    round_ = Round([ProcessSpec(("/bin/true",), {}, None, None, cpus=(100_000,))], [], own_session=True)

    (event,) = round_.read()

    assert isinstance(event, StartFailed)
    round_.kill_remaining()
    round_.read()
