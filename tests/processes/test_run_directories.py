"""--log_dir with placeholders: a directory for each run."""

from __future__ import annotations

import json
import os
import re

import flota as public
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
    assert ended.stderr.count("is not a link, so it does not lead to this run") == 1
    assert os.listdir(flota.directory / "runs" / "default" / "latest") == []


def test_a_dry_run_shows_the_directory_and_makes_none(flota):
    plan = flota.run("--log_dir", TEMPLATE, "--job_id", "a", "--dry-run", "prints.py").stdout
    nodes = flota.run("--log_dir", TEMPLATE, "--nnodes", 2, "--dry-run", "prints.py").stdout

    assert re.search(rf"FLOTA_LOG_DIR={flota.directory}/runs/a/\d{{8}}-\d{{6}}\n", plan)
    assert f"FLOTA_LOG_DIR={flota.directory}/runs/default/{{time}}\n" in nodes
    assert os.listdir(flota.directory) == []


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
