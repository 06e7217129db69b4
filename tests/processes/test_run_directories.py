"""--log_dir with placeholders: a directory for each run, and the commands that find it again."""

from __future__ import annotations

import json
import os
import re

import pytest

import flota as public
from tests.launching import COMMAND
from tests.processes import functions

TEMPLATE = "runs/{job_id}/{time}"


def runs(flota, job="default"):
    return sorted(path for path in (flota.directory / "runs" / job).iterdir() if not path.is_symlink())


def test_each_run_has_a_directory_of_its_own_and_latest_leads_to_the_last(flota):
    codes = [flota.run("--log_dir", TEMPLATE, "dumps_env.py").returncode for _ in range(2)]
    first, second = runs(flota)

    assert codes == [0, 0]
    assert re.fullmatch(r"\d{8}-\d{6}(-2)?", second.name)
    assert os.readlink(second.parent / "latest") == second.name
    dump = json.loads((flota.directory / "dump.0.json").read_text())
    assert dump["env"]["FLOTA_LOG_DIR"] == dump["env"]["PADDLE_LOG_DIR"] == str(second)
    assert dump["stdout"] == str(second / "workerlog.0")
    assert json.loads((first / "report.json").read_text())["log_dir"] == str(first)


def test_host_and_pid_and_a_job_id_that_would_lead_elsewhere(flota):
    running = flota.start("--log_dir", "runs/{job_id}/{host}-{pid}", "--job_id", "../../x", "prints.py")

    assert running.wait() == 0
    [run] = runs(flota, ".._.._x")
    assert run.name == f"{os.uname().nodename}-{running.pid}"
    assert os.listdir(flota.directory) == ["runs"]


def test_a_flota_in_a_worker_has_a_log_directory_of_its_own(flota):
    nested = f"import subprocess, sys; sys.exit(subprocess.call([{str(COMMAND)!r}, *sys.argv[1:], 'inner.py']))"
    (flota.directory / "outer.py").write_text(nested)
    (flota.directory / "inner.py").write_text("")

    codes = [flota.run("outer.py").returncode, flota.run("outer.py", "--log_dir", "log").returncode]

    assert codes == [0, 2]
    assert (flota.directory / "log.trainer.0" / "report.json").exists()
    assert sorted(path.name for path in flota.directory.iterdir() if path.is_dir()) == ["log", "log.trainer.0"]


def test_restarts_stay_in_the_directory_of_the_run(flota):
    env = {"FAIL_RANK": "0", "FAIL_HOW": "3", "FAIL_UNTIL": "0"}
    ended = flota.run("--log_dir", TEMPLATE, "--max_restart", 1, "fails.py", env=env)

    [run] = runs(flota)
    assert ended.returncode == 0
    assert (run / "workerlog.0").read_text().count("===== flota: ") == 2


def test_a_directory_called_latest_is_kept_with_one_warning(flota):
    (flota.directory / "runs" / "default" / "latest").mkdir(parents=True)

    ended = flota.run("--log_dir", TEMPLATE, "prints.py")

    assert ended.returncode == 0
    assert ended.stderr.count("is not a link, so it does not point to this run") == 1
    assert os.listdir(flota.directory / "runs" / "default" / "latest") == []


def test_a_dry_run_shows_the_directory_and_makes_none(flota):
    plan = flota.run("--log_dir", TEMPLATE, "--job_id", "a", "--dry-run", "prints.py").stdout
    nodes = flota.run("--log_dir", TEMPLATE, "--nnodes", 2, "--dry-run", "prints.py").stdout

    assert re.search(rf"FLOTA_LOG_DIR={flota.directory}/runs/a/\d{{8}}-\d{{6}}\n", plan)
    assert f"FLOTA_LOG_DIR={flota.directory}/runs/default/{{time}}\n" in nodes
    assert os.listdir(flota.directory) == []


@pytest.fixture
def failures(flota):
    """Two runs: one has failed with 5, the last one with 7."""
    for code in ("5", "7"):
        flota.run("--log_dir", TEMPLATE, "fails.py", env={"FAIL_RANK": "0", "FAIL_HOW": code})
    return flota


@pytest.mark.parametrize(
    "words",
    [
        ["runs/default/latest"],
        ["runs/default"],
        ["runs"],
        [TEMPLATE],
        ["--log_dir", TEMPLATE],
        ["--log_dir=runs/default"],
    ],
    ids=" ".join,
)
def test_why_tells_of_the_latest_run(failures, words):
    told = failures.run("why", *words).stdout

    assert "rank 0 failed first: exit code 7" in told and "exit code 5" not in told


def test_why_tells_of_an_earlier_run_that_is_named(failures):
    assert "rank 0 failed first: exit code 5" in failures.run("why", runs(failures)[0]).stdout


@pytest.mark.parametrize("given", ["variable", "file"])
def test_why_looks_where_a_job_would_write(failures, given):
    env = {"FLOTA_LOG_DIR": TEMPLATE} if given == "variable" else {}
    if given == "file":
        (failures.directory / "flota.toml").write_text(f'log_dir = "{TEMPLATE}"\n')

    assert "rank 0 failed first: exit code 7" in failures.run("why", env=env).stdout


def test_why_without_a_run(flota):
    told = flota.run("why", TEMPLATE)

    assert told.returncode == 2
    assert f"no job has written a report or events to `{TEMPLATE}`" in told.stderr


@pytest.mark.parametrize("place", [TEMPLATE, "runs/default", "runs", "runs/default/latest"])
def test_stack_finds_the_running_job(flota, place):
    running = flota.start("--log_dir", TEMPLATE, "hangs.py", "sleep", 0)
    running.wait_for("step.0.0.3")
    flota.run("--log_dir", "runs/{job_id}/z{time}", "prints.py")  # the latest, and not running
    if place.endswith("latest"):
        os.unlink(flota.directory / place)
        os.symlink(runs(flota)[0].name, flota.directory / place)

    shown = flota.run("stack", "--log_dir", place)

    assert shown.returncode == 0, shown.stderr
    assert "rank 0 (pid " in shown.stdout


def test_launch_has_a_directory_for_each_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").write_text("print('hello')")

    reports = [public.launch("t.py", log_dir=TEMPLATE, console="none") for _ in range(2)]

    assert len({report.log_dir for report in reports}) == 2
    assert os.path.samefile(tmp_path / "runs" / "default" / "latest", reports[1].log_dir)


def test_spawn_has_a_directory_for_each_run(tmp_path):
    for _ in range(2):
        public.spawn(functions.gives_environment, nprocs=1, log_dir=tmp_path / "{time}")

    assert len(list(tmp_path.iterdir())) == 3
    assert (tmp_path / "latest" / "workerlog.0").exists()


def test_two_nodes_of_one_file_system_share_the_directory_and_its_token(flota):
    """The command that the first node prints has the path of the token: it is in the directory of the run."""
    first = flota.start("--nnodes", 2, "--log_dir", TEMPLATE, "prints.py")
    words = ""
    while "--master" not in words:
        words = first.process.stdout.readline().decode()
        assert words, first.output()
    assert re.search(r"FLOTA_TOKEN_FILE=\S+/runs/default/\d{8}-\d{6}/token\.\d+ ", words)
    second = flota.start("-c", words, command=["sh"], env={"PATH": f"{COMMAND.parent}:{os.environ['PATH']}"})

    assert (first.wait(), second.wait()) == (0, 0)
    [run] = runs(flota)
    assert {"workerlog.0", "workerlog.1", "report.json"} <= set(os.listdir(run))
    assert not list(run.glob("token.*"))
