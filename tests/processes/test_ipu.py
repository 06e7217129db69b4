"""IPU jobs as typed: poprun is started and watched like any worker. A stand-in takes its place (workers/poprun.py)."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.ipu import ARGUMENTS, install_poprun
from tests.launching import assert_nobody_left, descendants

WORDS = ("--devices", "4", "ipu", *ARGUMENTS, "train.py")
INSTANCE = """
import json, os, pathlib, sys
facts = {"env": dict(os.environ), "argv": sys.argv, "orig_argv": sys.orig_argv}
pathlib.Path(f"instance.{os.environ['PADDLE_TRAINER_ID']}.json").write_text(json.dumps(facts))
line = f"instance {os.environ['PADDLE_TRAINER_ID']} of {os.environ['PADDLE_TRAINERS_NUM']}\\n"
os.write(1, line.encode())  # in one go: instances share the log
"""
FAILS = """
import os, sys
if os.environ["PADDLE_TRAINER_ID"] == "1":
    if "raises" in sys.argv:
        raise ValueError("planned failure of an instance")
    sys.exit(7)
"""
FAILS_ONCE = """
import pathlib, sys
if not pathlib.Path("tried").exists():
    pathlib.Path("tried").touch()
    sys.exit(7)
"""
SLEEPS = """
import os, pathlib, time
pathlib.Path("ready." + os.environ["PADDLE_TRAINER_ID"]).touch()
time.sleep(600)
"""


@pytest.fixture
def poprun(flota):
    return install_poprun(flota.directory)


def training(flota, code):
    (flota.directory / "train.py").write_text(code)


def given_to_poprun(flota):
    return json.loads((flota.directory / "poprun.json").read_text())


def instance(flota, number):
    return json.loads((flota.directory / f"instance.{number}.json").read_text())


def test_every_instance_runs_the_script_and_knows_its_place(flota, poprun):
    training(flota, INSTANCE)

    result = flota.run(*WORDS, "--lr", "a b", env=poprun)

    assert result.returncode == 0, result.stderr
    for number in range(2):
        env = instance(flota, number)["env"]
        assert {name: env[name] for name in env if name.startswith("PADDLE_")} == {
            "PADDLE_TRAINERS_NUM": "2",
            "PADDLE_TRAINER_ENDPOINTS": "localhost:8090",
            "PADDLE_TRAINER_ID": str(number),
            "PADDLE_CURRENT_ENDPOINT": "localhost:8090",
            "PADDLE_RANK_IN_NODE": str(number),
        }
        assert instance(flota, number)["argv"] == [str(flota.directory / "train.py"), "--lr", "a b"]
        assert instance(flota, number)["orig_argv"][1] == "-u"


def test_what_instances_print_is_on_the_console_and_in_the_one_log(flota, poprun):
    training(flota, INSTANCE)

    result = flota.run(*WORDS, env=poprun)

    assert sorted(result.stdout.splitlines()) == ["instance 0 of 2", "instance 1 of 2"]
    assert flota.log(0) == result.stdout
    assert not (flota.directory / "log" / "workerlog.1").exists()
    assert json.loads((flota.directory / "log" / "report.json").read_text())["world_size"] == 1


def test_variables_reach_instances_on_any_host(flota, poprun):
    training(flota, INSTANCE)

    flota.run("--env", "A=b 'c", "--threads", 3, *WORDS, env={**poprun, "POPART_LOG_LEVEL": "INFO"})

    for number in range(2):
        env = instance(flota, number)["env"]
        assert (env["A"], env["OMP_NUM_THREADS"], env["POPART_LOG_LEVEL"]) == ("b 'c", "3", "INFO")


@pytest.mark.parametrize(("words", "code", "said"), [((), 7, "exit code 7"), (("raises",), 1, "ValueError: planned")])
def test_the_exit_code_is_popruns_own(flota, poprun, words, code, said):
    training(flota, FAILS)

    result = flota.run(*WORDS, *words, env=poprun)

    assert result.returncode == code
    assert "rank=[0] was aborted" in result.stderr
    assert said in result.stderr
    assert f"log: {flota.directory}/log/workerlog.0" in result.stderr


def test_a_failed_job_is_started_anew_when_asked_for(flota, poprun):
    training(flota, FAILS_ONCE)

    result = flota.run("--max_restart", 1, *WORDS, env=poprun)

    assert result.returncode == 0
    assert "restart 1 of 1" in result.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_poprun_and_its_instances_end_with_flota(flota, poprun, number, code):
    training(flota, SLEEPS)
    running = flota.start(*WORDS, env=poprun)
    running.wait_for("ready.0", "ready.1")
    assert len(descendants(running.pid)) == 4  # the shepherd, poprun and two instances

    running.process.send_signal(number)

    assert running.wait() == code
    assert_nobody_left()


def test_nobody_is_left_when_poprun_dies(flota, poprun):
    training(flota, SLEEPS)
    running = flota.start(*WORDS, env=poprun)
    running.wait_for("ready.0", "ready.1")

    (process,) = [pid for pid in descendants(running.pid) if len(descendants(pid)) == 2]
    os.kill(process, signal.SIGKILL)

    assert running.wait() == 137
    assert_nobody_left()


def test_the_plan_shows_popruns_command_line_and_starts_nothing(flota, poprun):
    training(flota, INSTANCE)

    result = flota.run("--dry-run", *WORDS, "--lr", "0.1", env=poprun)

    assert f"0     0,1,2,3  {flota.directory}/log/workerlog.0  {flota.directory}/sdk/poprun --num-" in result.stdout
    assert "'--instance-mpi-local-args=1:-x PADDLE_TRAINER_ID=1 -x PADDLE_CURRENT" in result.stdout
    assert f" -u {flota.directory}/train.py --lr 0.1\n" in result.stdout
    assert not (flota.directory / "poprun.json").exists()
    assert not (flota.directory / "log").exists()


def test_the_plan_as_json_is_what_poprun_is_given(flota, poprun):
    training(flota, INSTANCE)

    (planned,) = json.loads(flota.run("--dry-run", "--json", *WORDS, env=poprun).stdout)["workers"]
    flota.run(*WORDS, env=poprun)

    assert planned["command"] == given_to_poprun(flota)["argv"]
    for name, value in planned["env"].items():
        if "<" not in value:
            assert given_to_poprun(flota)["env"][name] == value, name


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_without_poprun_nothing_starts(flota, flags):
    training(flota, INSTANCE)

    result = flota.run(*flags, *WORDS, env={"PATH": str(flota.directory)})

    error, _, hint = result.stderr.partition("\n\n")
    assert result.returncode == 2
    assert error == "flota: error: no such program: `poprun`"
    assert hint.startswith("hint: it comes with the Poplar SDK")
    assert not (flota.directory / "log").exists()


def test_the_first_block_shows_what_was_typed(flota, poprun):
    training(flota, INSTANCE)

    result = flota.run(*WORDS, env=poprun)

    assert "training_script: ipu\n" in result.stderr
    assert f"training_script_args: {[*ARGUMENTS, 'train.py']}\n" in result.stderr
