"""flota why: the last screen of a finished job once more, from its log directory."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from tests.launching import assert_nobody_left, wait_until


def why(flota, *words):
    return flota.run("why", *words)


def page(err):
    return err[err.index("ABORT!!!") :]


def test_it_prints_the_failure_report_of_the_job(flota):
    ended = flota.run("--nproc_per_node", 3, "fails.py", env={"FAIL_HOW": "7"})

    told = why(flota)

    assert (told.returncode, told.stdout) == (0, page(ended.stderr))


@pytest.mark.parametrize("left", ["report.json", "events.*.jsonl"])
def test_either_file_is_enough(flota, left):
    ended = flota.run("--nproc_per_node", 2, "--log_dir", "out", "fails.py", env={"FAIL_HOW": "SIGSEGV"})
    log = flota.directory / "out"
    for path in log.iterdir():
        if path not in log.glob(left):
            path.unlink()

    assert why(flota, "out").stdout == page(ended.stderr)


def test_verbose_has_all_that_is_known(flota):
    flota.run("--server_num", 1, "--trainer_num", 2, "plays.py", env={"PLAY": "trainer.0=3 trainer.1=4 server=serve"})

    report = json.loads((flota.directory / "log" / "report.json").read_text())
    told = why(flota, "--verbose").stdout

    assert all(line in told for failure in report["failures"] for line in failure["said"])


def test_a_finished_job_is_found_by_its_id_also_as_json(flota):
    for name in ("first", "second"):
        flota.run("--job_id", name, "--log_dir", f"out/{name}", "fails.py", env={"FAIL_RANK": "0", "FAIL_HOW": "7"})

    assert "out/first/workerlog.0" in why(flota, "--job", "first").stdout
    (report,) = json.loads(why(flota, "--job", "second", "--json").stdout)
    written = json.loads((flota.directory / "out/second/report.json").read_text())
    assert written.pop("ledger") and report == written
    assert "`third`" in why(flota, "--job", "third").stderr or "no job of this user" in why(flota, "--job", "3").stderr


def test_the_last_of_several_jobs_is_reported(flota):
    flota.run("fails.py", env={"FAIL_RANK": "0"})
    flota.run("prints.py")

    assert re.fullmatch(
        r"job default, started [\d :-]+, logs in \S+: 1 worker finished successfully in [\d.]+ s\n", why(flota).stdout
    )


def test_a_stopped_job(flota):
    running = flota.start("sleeps.py")
    wait_until((flota.directory / "log" / "workerlog.0").exists, "a worker")
    wait_until(lambda: "worker_started" in events(flota), "its start")
    os.kill(running.pid, signal.SIGTERM)
    running.wait()

    assert re.fullmatch(
        r"job default, started [\d :-]+, logs in \S+: stopped by SIGTERM after [\d.]+ s\n", why(flota).stdout
    )


def events(flota):
    return "".join(path.read_text() for path in (flota.directory / "log").glob("events.*.jsonl"))


# Rank 1 fails, and nobody can stop rank 0.
DEAF = """\
import os, signal, time
if os.environ["RANK"] == "1":
    time.sleep(0.1)
    while not os.path.exists("deaf"):
        time.sleep(0.01)
    raise ValueError("torn")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("deaf", "w")
time.sleep(60)
"""


def test_a_job_whose_flota_was_killed_is_reconstructed(flota):
    (flota.directory / "w.py").write_text(DEAF)
    running = flota.start("--nproc_per_node", 2, "w.py")
    wait_until(lambda: "worker_exited" in events(flota), "a failure")
    assert "stopping on " in why(flota).stdout
    running.process.kill()
    running.wait()
    assert_nobody_left()  # the shepherd holds the directory, too

    told = why(flota).stdout

    assert "has no report because flota itself was killed" in told
    assert "rank 1 failed first: exit code 1 (ValueError)" in told
    assert "  ValueError: torn" in told


IGNORES = "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen(f'ready.{os.environ[\"RANK\"]}', 'w')\ntime.sleep(60)"


def test_a_job_that_was_killed_in_its_grace_has_a_report(flota):
    (flota.directory / "w.py").write_text(IGNORES)
    running = flota.start("--nproc_per_node", 2, "w.py")
    running.wait_for("ready.0", "ready.1")
    running.process.terminate()
    running.wait_for("log/report.json")
    assert "stopping on " in why(flota).stdout
    running.process.kill()
    running.wait()
    assert_nobody_left()

    report = json.loads((flota.directory / "log" / "report.json").read_text())
    told = why(flota).stdout

    assert (report["final"], report["verdict"], report["exit_code"], report["signal"]) == (False, "stopped", 143, 15)
    assert report["world_size"] == 2
    assert "has no report because flota itself was killed while it stopped the workers after SIGTERM" in told
    assert "no worker failed before that" in told
    (next((flota.directory / "log").glob("events.*"))).unlink()
    assert "flota itself was killed while it stopped the workers after SIGTERM" in why(flota).stdout


def test_the_final_report_replaces_the_early_one(flota):
    (flota.directory / "w.py").write_text("import time\nopen('ready', 'w')\ntime.sleep(60)")
    running = flota.start("w.py")
    running.wait_for("ready")

    running.process.terminate()

    assert running.wait() == 143
    assert "final" not in json.loads((flota.directory / "log" / "report.json").read_text())


def test_it_reports_the_last_attempt_and_separate_logs(flota):
    code = f"import os, sys\nif os.environ['FLOTA_ATTEMPT'] == '0': sys.exit(4)\n{DEAF}"
    (flota.directory / "w.py").write_text(code)
    log = flota.directory / "log"
    log.mkdir()
    (log / "workerlog.1").write_text("===== flota: job old, 2020-01-01 00:00:00 =====\nof an earlier job\n")
    running = flota.start("--nproc_per_node", 2, "--max_restart", 1, "-r", 3, "w.py")
    wait_until(lambda: '"rank": 1, "code": 1' in events(flota), "the second failure")
    running.process.kill()
    running.wait()
    assert_nobody_left()

    told = why(flota).stdout

    [sentence] = [
        line for line in told.splitlines() if line.startswith("rank 1 failed first: exit code 1 (ValueError)")
    ]
    assert not sentence.endswith("after 0.0 s")
    assert ", attempt 1\n" in told
    assert "  ValueError: torn\nlog: " in told
    assert "log: log/workerlog.1.err\n" in told


@pytest.mark.parametrize(
    ("file", "text", "code"),
    [
        ("report.json", '{"failures": null, "verdict": "failed"}', 0),
        ("report.json", '{"failures": [null]}', 2),
        ("report.json", '{"failures": 3}', 2),
        ("events.x.jsonl", '{"foo": 1}', 2),
        ("events.x.jsonl", '{"event": "worker_exited", "rank": null}', 2),
        ("events.x.jsonl", '{"event": "job_started", "pid": 0}\n{"event": "job_ended", "report": "none"}', 0),
    ],
)
def test_a_file_that_is_not_a_report_is_ignored(flota, file, text, code):
    (flota.directory / "log").mkdir()
    (flota.directory / "log" / file).write_text(text)

    told = why(flota)

    assert (told.returncode, "bug" in told.stderr) == (code, False), told.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no job has written a report or events to `log`"),
        (("nowhere",), "to `nowhere`"),
        (("--verbos",), "unknown flag"),
    ],
)
def test_bad_arguments_are_errors(flota, words, said):
    told = why(flota, *words)

    assert told.returncode == 2
    assert said in told.stderr


def test_a_script_of_that_name_can_be_run(flota):
    (flota.directory / "why").write_text("print('a script')")

    assert flota.run("run", "why").stdout == "a script\n"


def test_help(flota):
    assert why(flota, "--help").stdout.startswith("usage: flota why")


# Logs are appended to: what is printed is of the last run alone.

OLD = "raise ValueError('of the first run')"


@pytest.mark.parametrize("streams", [(), ("-r", 3)], ids=["one file", "two files"])
def test_an_earlier_runs_traceback_is_not_the_last_runs(flota, streams):
    (flota.directory / "old.py").write_text(OLD)
    flota.run("old.py")

    ended = flota.run(*streams, "fails.py", env={"FAIL_RANK": "0", "FAIL_HOW": "7"})
    told = flota.run("why", "--verbose")

    for page in (ended.stderr, told.stdout):
        assert "rank 0 failed first: exit code 7" in page
        assert "of the first run" not in page


def test_nor_is_it_that_of_a_run_whose_flota_was_killed(flota):
    """The first run has said more after its header than is read of a log."""
    (flota.directory / "old.py").write_text(f"print(*range(200_000), sep='\\n')\n{OLD}")
    flota.run("--nproc_per_node", 2, "--console", "none", "old.py")
    past = 1_700_000_000
    os.utime(flota.directory / "log" / "workerlog.1", (past, past))
    (flota.directory / "w.py").write_text(DEAF.replace('raise ValueError("torn")', "raise SystemExit(7)"))
    running = flota.start("--nproc_per_node", 2, "-r", 3, "w.py")
    wait_until(lambda: '"rank": 1, "code": 7' in events(flota), "a failure")
    running.process.kill()
    running.wait()
    assert_nobody_left()

    told = why(flota).stdout

    assert "has no report because flota itself was killed" in told
    assert "rank 1 failed first: exit code 7" in told
    assert "of the first run" not in told
