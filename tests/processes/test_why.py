"""flota why: the last screen of a finished job once more, from its log directory."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.launching import wait_until


def why(flota, *words):
    return flota.run("why", *words)


def page(err):
    return err[err.index("ABORT!!!") :]


def test_it_prints_the_page_that_the_job_ended_with(flota):
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


def test_the_last_of_several_jobs_is_told(flota):
    flota.run("fails.py", env={"FAIL_RANK": "0"})
    flota.run("prints.py")

    assert why(flota).stdout == "job default: 1 workers ended well\n"


def test_a_stopped_job(flota):
    running = flota.start("sleeps.py")
    wait_until((flota.directory / "log" / "workerlog.0").exists, "a worker")
    wait_until(lambda: "worker_started" in events(flota), "its start")
    os.kill(running.pid, signal.SIGTERM)
    running.wait()

    assert why(flota).stdout == "job default: stopped by SIGTERM\n"


def events(flota):
    return "".join(path.read_text() for path in (flota.directory / "log").glob("events.*.jsonl"))


def test_a_job_whose_flota_was_killed_is_pieced_together(flota):
    code = "import os, signal, sys, time\nif os.environ['RANK'] == '1': raise ValueError('torn')\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)"
    (flota.directory / "w.py").write_text(code)
    running = flota.start("--nproc_per_node", 2, "w.py")
    wait_until(lambda: "worker_exited" in events(flota), "a failure")
    assert "has not ended yet" in why(flota).stdout
    running.process.kill()
    running.wait()

    told = why(flota).stdout

    assert "left no report: flota itself was ended" in told
    assert "rank 1 failed first: exit code 1 (ValueError)" in told
    assert "  ValueError: torn" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no job has left a report or events in `log`"),
        (("nowhere",), "in `nowhere`"),
        (("--verbos",), "unknown flag"),
    ],
)
def test_what_it_cannot_do_is_said(flota, words, said):
    told = why(flota, *words)

    assert told.returncode == 2
    assert said in told.stderr


def test_a_script_of_that_name_can_be_run(flota):
    (flota.directory / "why").write_text("print('a script')")

    assert flota.run("run", "why").stdout == "a script\n"


def test_help(flota):
    assert why(flota, "--help").stdout.startswith("usage: flota why")
