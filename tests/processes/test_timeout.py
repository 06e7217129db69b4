"""--timeout on one machine: when it has passed, the job stops as after SIGTERM, with an exit code of its own."""

from __future__ import annotations

import json
import signal

import pytest

from tests.launching import assert_nobody_left

TIMED_OUT = 124


def report(flota):
    return json.loads((flota.directory / "log" / "report.json").read_text())


def test_the_job_stops_when_the_timeout_has_passed(flota):
    ended = flota.run("--nproc_per_node", 2, "--timeout", "1s", "sleeps.py")

    assert ended.returncode == TIMED_OUT, ended.stderr
    assert "--timeout 1s has passed; stopping 2 workers (up to 30 s)" in ended.stderr
    assert ended.stderr.splitlines()[-1] == "flota: stopped after --timeout 1s"
    found = report(flota)
    assert (found["verdict"], found["exit_code"], found["signal"]) == ("stopped", TIMED_OUT, None)
    assert (found["reason"], found["failures"]) == ("stopped after --timeout 1s", [])
    assert_nobody_left()


def test_workers_that_can_save_do_so_at_one_step(flota):
    ended = flota.run("--nproc_per_node", 2, "--timeout", "5", "yields.py", "saves")

    assert ended.returncode == TIMED_OUT, ended.stderr
    saved = [path.read_text() for path in flota.directory.glob("saved.*")]
    assert len(saved) == 2 and len(set(saved)) == 1
    assert f"--timeout 5s has passed; asking all ranks to save and exit at step {saved[0]} (up to 30 s)" in ended.stderr
    assert ended.stderr.splitlines()[-1] == "flota: stopped after --timeout 5s: all ranks saved and exited"
    assert report(flota)["stop_step"] == int(saved[0])
    assert_nobody_left()


def test_workers_that_do_not_stop_are_killed_after_the_grace(flota):
    ended = flota.run("--timeout", "1s", "--grace", "0.5", "ignores_sigterm.py")

    assert ended.returncode == TIMED_OUT, ended.stderr
    assert_nobody_left()


def test_the_clock_runs_on_over_restarts(flota):
    """Each attempt takes half a second: a clock that began again with each of them would never reach the timeout."""
    (flota.directory / "fails.py").write_text("import time\ntime.sleep(0.5)\nraise SystemExit(3)\n")

    ended = flota.run("--timeout", "2s", *("--max_restart", 1000, "--crash-loop", 0, "--backoff", 0), "fails.py")

    assert ended.returncode == TIMED_OUT, ended.stderr
    assert ended.stderr.splitlines()[-1] == "flota: stopped after --timeout 2s"
    assert_nobody_left()


def test_a_job_that_waits_for_its_restart_ends_as_well(flota):
    flags = ("--max_restart", 1000, "--crash-loop", 0, "--backoff", "10m")

    ended = flota.run("--timeout", "4s", *flags, "fails.py", env={"FAIL_RANK": "0"})

    assert ended.returncode == TIMED_OUT, ended.stderr
    assert "restarting in " in ended.stderr
    assert ended.stderr.splitlines()[-1] == "flota: stopped after --timeout 4s"


def test_a_job_that_ends_in_time_is_not_changed(flota):
    ended = flota.run("--timeout", "8h", "prints.py")

    assert ended.returncode == 0, ended.stderr
    assert "timeout" not in ended.stderr


def test_a_signal_that_came_first_decides_the_exit_code(flota):
    running = flota.start("--timeout", "4s", "--grace", "5", "ignores_sigterm.py")
    running.wait_for("ready.0.0")

    running.process.send_signal(signal.SIGTERM)
    _, err = running.output()

    assert running.process.returncode == 143, err
    assert "--timeout" not in err


def test_ctrl_c_after_the_timeout_kills_the_workers_at_once(flota):
    running = flota.start("--timeout", "3s", "--grace", "10m", "ignores_sigterm.py")
    seen = b""
    while b"--timeout 3s has passed" not in seen:
        seen += running.process.stderr.read1()

    running.process.send_signal(signal.SIGINT)
    _, err = running.output()

    assert running.process.returncode == TIMED_OUT, err
    assert err.splitlines() == ["flota: killing 1 worker", "flota: stopped after --timeout 3s"]


def test_a_killed_flota_has_left_a_report_that_names_the_timeout(flota):
    running = flota.start("--timeout", "3s", "--grace", "10m", "ignores_sigterm.py")
    running.wait_for("log/report.json")

    running.process.kill()
    running.wait()

    found = report(flota)
    assert (found["final"], found["exit_code"], found["reason"]) == (False, TIMED_OUT, "stopped after --timeout 3s")
    assert_nobody_left()


@pytest.mark.parametrize(
    ("env", "config"), [({"FLOTA_TIMEOUT": "1s"}, ""), ({}, 'timeout = "1s"\n'), ({}, "timeout = 1\n")]
)
def test_a_variable_or_the_config_file_may_set_it(flota, env, config):
    (flota.directory / "flota.toml").write_text(config)

    ended = flota.run("sleeps.py", env=env)

    assert ended.returncode == TIMED_OUT, ended.stderr


def test_flota_why_says_that_it_was_the_timeout(flota):
    flota.run("--timeout", "1s", "sleeps.py")

    ended = flota.run("why")

    assert "stopped after --timeout 1s" in ended.stdout


@pytest.mark.parametrize("value", ["0", "-1s", "soon", "1d", "inf", ""])
def test_a_timeout_that_is_not_a_duration_is_one_clear_error(flota, value):
    ended = flota.run(f"--timeout={value}", "sleeps.py")

    assert ended.returncode == 2
    assert f"invalid value `{value}` for --timeout: expected a duration above 0" in ended.stderr
    assert not (flota.directory / "log").exists()
