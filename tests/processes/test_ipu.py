"""IPU jobs as typed: poprun is started and watched like any worker. A stand-in takes its place (workers/poprun.py)."""

from __future__ import annotations

import json
import os

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
BLOCK = (
    *("ipus: 4", "hosts: localhost", "nproc_per_host: 2", "ipus_per_replica: 1", "ips: localhost"),
    *("training_script: train.py", "training_script_args: ['--lr', 'a b']"),
    "PADDLE_TRAINERS_NUM                       2",
    "PADDLE_CURRENT_ENDPOINT                   localhost:8090",
)
FAILS = """
import os, sys, traceback
if os.environ["PADDLE_TRAINER_ID"] == "1":
    try:
        raise ValueError("planned failure of an instance")
    except ValueError:
        traceback.print_exc()
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


def instance(flota, number):
    return json.loads((flota.directory / f"instance.{number}.json").read_text())


def test_every_instance_runs_the_script_in_its_place_and_all_share_one_log(flota, poprun):
    training(flota, INSTANCE)
    words = ("--env", "A=b 'c", "--threads", 3, *WORDS, "--lr", "a b")
    environ = {**poprun, "POPART_LOG_LEVEL": "INFO"}

    result = flota.run(*words, env=environ)

    assert result.returncode == 0, result.stderr
    for number in range(2):
        env = instance(flota, number)["env"]
        assert (env["PADDLE_TRAINER_ID"], env["PADDLE_RANK_IN_NODE"], env["PADDLE_TRAINERS_NUM"]) == (
            str(number),
            str(number),
            "2",
        )
        assert (env["A"], env["OMP_NUM_THREADS"], env["POPART_LOG_LEVEL"]) == ("b 'c", "3", "INFO")
        assert instance(flota, number)["argv"] == [str(flota.directory / "train.py"), "--lr", "a b"]
        assert instance(flota, number)["orig_argv"][1] == "-u"
    assert sorted(result.stdout.splitlines()) == ["instance 0 of 2", "instance 1 of 2"]
    assert flota.log(0) == result.stdout
    assert not (flota.directory / "log" / "workerlog.1").exists()
    assert json.loads((flota.directory / "log" / "report.json").read_text())["world_size"] == 1
    for line in BLOCK:
        assert f"\n{line}\n" in result.stderr, line

    # The plan is what poprun was given.
    (planned,) = json.loads(flota.run("--dry-run", "--json", *words, env=environ).stdout)["workers"]
    given = json.loads((flota.directory / "poprun.json").read_text())
    assert planned["command"] == given["argv"]
    assert {item for item in planned["env"].items() if "<" not in item[1]} <= set(given["env"].items())


def test_the_exit_code_is_popruns_own(flota, poprun):
    training(flota, FAILS)

    result = flota.run(*WORDS, env=poprun)

    assert result.returncode == 7
    assert "rank=[0] was aborted" in result.stderr
    assert "ValueError: planned failure of an instance" in result.stderr


@pytest.mark.parametrize(("victim", "number", "code"), [("flota", 15, 143), ("flota", 9, -9), ("poprun", 9, 137)])
def test_flota_poprun_and_its_instances_end_together(flota, poprun, victim, number, code):
    training(flota, SLEEPS)
    running = flota.start(*WORDS, env=poprun)
    running.wait_for("ready.0", "ready.1")
    assert len(descendants(running.pid)) == 4  # the shepherd, poprun and two instances
    (middle,) = [pid for pid in descendants(running.pid) if len(descendants(pid)) == 2]

    os.kill(running.pid if victim == "flota" else middle, number)

    assert running.wait() == code
    assert_nobody_left()
