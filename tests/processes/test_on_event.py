"""--on_event: a command of the user hears what happens to a job, and can neither delay nor fail it."""

from __future__ import annotations

import json
import signal

import pytest

from tests.launching import assert_nobody_left, descendants, survivors, wait_until

SAVES = "cat >> heard"


def heard(flota):
    path = flota.directory / "heard"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def kinds(flota):
    return [event["event"] for event in heard(flota)]


def report(flota):
    return json.loads((flota.directory / "log" / "report.json").read_text())


def warnings(err):
    return [line for line in err.splitlines() if "--on_event" in line]


def test_a_failed_job_is_a_failure_and_an_end(flota):
    ended = flota.run("--nproc_per_node", 2, "--job_id", "j7", "--on-event", SAVES, "fails.py")

    assert ended.returncode == 1
    failure, end = heard(flota)
    written = report(flota)
    assert (failure["event"], end["event"]) == ("failure", "end")
    assert failure["culprit"] == end["culprit"] == written["failures"][0]
    assert failure["message"].startswith("rank 1 failed: exit code 1 (ValueError) after ")
    assert (end["verdict"], end["exit_code"], end["log_dir"]) == ("failed", 1, written["log_dir"])
    assert {(event["job_id"], event["round"], event["attempt"]) for event in (failure, end)} == {("j7", 0, 0)}
    assert failure.keys() == end.keys()
    assert not warnings(ended.stderr)


def test_a_restart_is_told_with_its_failure(flota):
    flota.run("--nproc_per_node", 2, "--max_restart", 1, "--on-event", SAVES, "fails.py", env={"FAIL_UNTIL": "0"})

    failure, restart, end = heard(flota)
    assert [failure["event"], restart["event"], end["event"]] == ["failure", "restart", "end"]
    assert [event["round"] for event in (failure, restart, end)] == [0, 1, 1]
    assert [event["attempt"] for event in (failure, restart, end)] == [0, 1, 1]
    assert restart["message"].endswith("; restarting (1 of 1)")
    assert (restart["reason"], restart["culprit"]) == ("rank 1 ValueError", failure["culprit"])
    assert (end["verdict"], end["exit_code"], end["culprit"], end["reason"]) == ("succeeded", 0, None, None)
    assert end["message"].startswith("all 2 workers finished successfully in ")


def test_a_hang_is_an_event_of_its_own(flota):
    flags = ("--nproc_per_node", 3, "--hang-timeout", 4, "--grace", 1, "--on-event", SAVES)

    ended = flota.run(*flags, "hangs.py", "sleep", 1)

    assert ended.returncode == 124, ended.stderr
    hang, end = heard(flota)
    assert (hang["event"], hang["culprit"]["rank"], hang["culprit"]["cause"]) == ("hang", 1, "hung")
    assert (end["event"], end["exit_code"]) == ("end", 124)


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [(signal.SIGTERM, 143, "stopped by SIGTERM after "), (signal.SIGINT, 130, "stopped by SIGINT after ")],
)
def test_a_stop_is_an_end(flota, number, code, message):
    running = flota.start("--on-event", SAVES, "sleeps.py")
    running.wait_for("ready.0.0")

    running.process.send_signal(number)
    running.output()

    (end,) = heard(flota)
    assert (end["event"], end["verdict"], end["exit_code"]) == ("end", "stopped", code)
    assert end["message"].startswith(message)


def test_it_is_a_line_for_the_shell(flota):
    flota.run("--on-event", 'cd / && N=$(cat | wc -l); echo "$N lines" > $OLDPWD/said', "prints.py")

    assert (flota.directory / "said").read_text() == "1 lines\n"


def test_a_variable_or_the_config_file_may_set_it(flota):
    (flota.directory / "flota.toml").write_text(f'on_event = "{SAVES}"\n')

    flota.run("prints.py")
    flota.run("prints.py", env={"FLOTA_ON_EVENT": f"{SAVES}; {SAVES}"})

    assert kinds(flota) == ["end", "end"]


def test_secrets_are_not_in_its_environment(flota):
    secrets = {"FLOTA_TOKEN": "s3cret", "FLOTA_ETCD_PASSWORD": "s3cret", "OTHER": "kept"}

    flota.run("--on-event", "env > variables", "prints.py", env=secrets)

    variables = (flota.directory / "variables").read_text()
    assert "OTHER=kept" in variables
    assert "s3cret" not in variables


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo out; echo why >&2; exit 3", "failed for a `failure` event: exit code 3\n  why"),
        ("kill -9 $$", "failed for a `failure` event: SIGKILL (killed by another process or the OOM killer)\n"),
        ("nowhere/notify", "failed for a `failure` event: exit code 127\n"),
        (")", "failed for a `failure` event: exit code 2\n"),
    ],
)
def test_a_command_that_fails_is_one_warning_and_changes_nothing(flota, command, words):
    ended = flota.run("--nproc_per_node", 2, "--max_restart", 1, "--on-event", command, "fails.py")

    assert ended.returncode == 1
    assert len(warnings(ended.stderr)) == 1
    assert f"flota: warning: the --on_event command {words}" in ended.stderr
    assert report(flota)["exit_code"] == 1


@pytest.mark.parametrize(
    "command",
    ["sleep 600", "trap '' TERM; sleep 600 & wait", "yes", "exec < /dev/null; kill -STOP $$", "sleep 600 | sleep 600"],
)
def test_a_command_that_does_not_end_is_killed(flota, command):
    ended = flota.run("--on-event", f"echo started; {command}", "prints.py")

    assert ended.returncode == 0
    (warning,) = warnings(ended.stderr)
    assert warning.endswith("the --on_event command did not end within 10 s after a `end` event and was killed")
    assert_nobody_left()


@pytest.mark.parametrize(
    "command", ["sleep 600 &", "setsid sleep 600 &", "(setsid sh -c 'sleep 600 & sleep 600' &) &", "nohup sleep 600 &"]
)
def test_what_a_command_leaves_behind_is_killed_when_it_ends(flota, command):
    ended = flota.run("--on-event", command, "prints.py")

    assert ended.returncode == 0
    assert not warnings(ended.stderr)
    assert_nobody_left()


def test_workers_run_on_while_a_command_hangs(flota):
    """The second attempt ends while the command for the first failure still runs."""
    running = flota.start(
        *("--nproc_per_node", 2, "--max_restart", 1, "--on-event", "touch began; until [ -e go ]; do sleep 0.01; done"),
        "fails.py",
        env={"FAIL_UNTIL": "0"},
    )
    running.wait_for("began", "ready.0.1", "ready.1.1", "log/report.json")

    (flota.directory / "go").touch()
    _, err = running.output()

    assert running.process.returncode == 0
    assert not warnings(err)


def test_of_a_flood_of_events_some_are_dropped_and_never_the_end(flota):
    flags = ("--max_restart", 60, "--crash-loop", 0, "--backoff", 0, "--no-python", "--on-event", f"{SAVES}; sleep 0.4")

    ended = flota.run(*flags, "false", timeout=120)

    assert ended.returncode == 1
    (warning,) = warnings(ended.stderr)
    assert warning.endswith("is too slow for the events of this job: more than 16 wait; dropping some")
    assert kinds(flota)[-1] == "end"
    assert 16 <= len(kinds(flota)) < 120
    assert_nobody_left()


def test_nothing_is_left_if_flota_is_killed(flota):
    command = "touch began; sleep 600 & setsid sleep 600 & sleep 600"
    running = flota.start("--nproc_per_node", 2, "--max_restart", 3, "--on-event", command, "fails.py")
    running.wait_for("began")
    wait_until(lambda: len(descendants(running.pid)) >= 6, "the command's processes")

    running.process.kill()
    running.wait()

    assert_nobody_left()


def test_nothing_is_left_if_flota_is_killed_at_the_end_of_the_job(flota):
    before = survivors()
    running = flota.start("--on-event", "touch began; sleep 600", "prints.py")
    running.wait_for("began")

    running.process.kill()
    running.wait()

    assert_nobody_left(spared=before)


def test_ctrl_c_ends_the_wait_for_a_command(flota):
    running = flota.start("--on-event", "touch began; sleep 600", "prints.py")
    running.wait_for("began", "log/report.json")

    running.process.send_signal(signal.SIGINT)

    assert running.wait(8) == 0
    assert_nobody_left()


@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_command_is_one_clear_error(flota, value):
    ended = flota.run("--on-event", value, "prints.py")

    assert ended.returncode == 2
    assert f"invalid value `{value}` for --on-event: expected a shell command" in ended.stderr
