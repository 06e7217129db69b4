"""flota.launch: the command for programs, in this very process, which keeps its handlers and its children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

import flota
from flota.errors import LogDirInUse, MissingScript, NoScript, PortInUse, RefusedFlag
from flota.errors.spawning import BadOption, NodeLost, UnknownOption
from flota.job.report import FAILED, SUCCEEDED
from tests.launching import DEADLINE, WORKERS, assert_nobody_left, children, environment, wait_until

HANDLED = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGUSR1, signal.SIGTSTP]


@pytest.fixture(autouse=True)
def _apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(environment()):
        monkeypatch.delenv(name)
    yield
    assert_nobody_left()


def test_the_report_says_how_it_ended(capsys, tmp_path):
    handlers = [signal.getsignal(number) for number in HANDLED]
    (tmp_path / "train.py").write_text("import os, sys; print(sys.argv[1:], os.environ['A'], os.environ['WORLD_SIZE'])")

    report = flota.launch(tmp_path / "train.py", ["--lr", 0.1], nproc_per_node=2, env={"A": "1"}, log_dir="out")

    assert (report.verdict.kind, report.exit_code, report.workers) == (SUCCEEDED, 0, 2)
    assert capsys.readouterr().out == "['--lr', '0.1'] 1 2\n"
    assert (tmp_path / "out" / "workerlog.1").read_text().endswith("['--lr', '0.1'] 1 2\n")
    assert [signal.getsignal(number) for number in HANDLED] == handlers


def test_a_failed_job_returns_a_report(capsys, tmp_path):
    (tmp_path / "train.py").write_text("import os; os._exit(3 * int(os.environ['RANK']))")

    report = flota.launch("train.py", nproc_per_node=2, max_restart=1)

    assert (report.verdict.kind, report.exit_code, report.rounds) == (FAILED, 3, 2)
    assert [(failed.rank, failed.code) for failed in report.failed] == [(1, 3)]
    assert "rank 1 failed first" in capsys.readouterr().err


def test_a_module_is_known_by_its_name(tmp_path, monkeypatch, capsys):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text("print(__name__, __package__)")
    monkeypatch.syspath_prepend(tmp_path)

    assert flota.launch("package.train").exit_code == 0
    assert flota.launch("package.train", module=True).exit_code == 0
    assert capsys.readouterr().out == "__main__ package\n" * 2


def test_any_thread_may_launch(tmp_path):
    (tmp_path / "train.py").write_text("")
    codes = []

    thread = threading.Thread(target=lambda: codes.append(flota.launch("train.py").exit_code))
    thread.start()
    thread.join()

    assert codes == [0]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: flota.launch(""), NoScript),
        (lambda: flota.launch("missing.py"), MissingScript),
        (lambda: flota.launch(3), BadOption),
        (lambda: flota.launch(b"train.py"), BadOption),
        (lambda: flota.launch("a\0b"), BadOption),
        (lambda: flota.launch("train.py", "--lr"), BadOption),
        (lambda: flota.launch("train.py", 5), BadOption),
        (lambda: flota.launch("train.py", ["a\0b"]), BadOption),
        (lambda: flota.launch("train.py", env={"A": "\0"}), flota.FlotaError),
        (lambda: flota.launch("train.py", env=5), flota.FlotaError),
        (lambda: flota.launch("train.py", grace=[]), flota.FlotaError),
        (lambda: flota.launch("train.py", devices={}), flota.FlotaError),
        (lambda: flota.launch("train.py", nproc=2), UnknownOption),
        (lambda: flota.launch("train.py", dry_run=True), RefusedFlag),
        (lambda: flota.launch("train.py", interactive=True), RefusedFlag),
        (lambda: flota.launch("train.py", nproc_per_node="many"), flota.FlotaError),
        (lambda: flota.launch("train.py", start_port=1, port_range="2:3"), flota.FlotaError),
        (lambda: flota.launch("train.py", start_port=int(os.environ["TAKEN"])), PortInUse),
        (lambda: flota.launch("train.py", log_dir="locked"), LogDirInUse),
    ],
)
def test_what_the_command_refuses_is_an_error(call, error, tmp_path, monkeypatch):
    import fcntl
    import socket

    (tmp_path / "train.py").write_text("")
    (tmp_path / "locked").mkdir()
    taken = socket.create_server(("0.0.0.0", 0))
    monkeypatch.setenv("TAKEN", str(taken.getsockname()[1]))

    with taken, open(tmp_path / "locked" / ".flota.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(error) as caught:
            call()

    assert caught.value.message
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 2


def program(tmp_path, *more):
    (tmp_path / "program.py").write_text(
        f"import flota\nif __name__ == '__main__':\n    flota.launch({str(WORKERS / 'does_all.py')!r}, nproc_per_node=2, grace=0.2)\n"
    )
    running = subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE)
    wait_until(lambda: all((tmp_path / f"ready.{rank}.0").exists() for rank in (0, 1)), "workers")
    return running


def test_no_process_survives_the_death_of_the_program(tmp_path):
    running = program(tmp_path)

    running.kill()
    running.communicate()

    assert_nobody_left()


def test_ctrl_c_stops_the_job(tmp_path):
    running = program(tmp_path)

    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=DEADLINE)

    assert running.returncode == -signal.SIGINT
    assert b"stopped by SIGTERM" in err
    assert_nobody_left()


def test_a_killed_node_is_an_error(tmp_path):
    (tmp_path / "train.py").write_text("open('ready', 'w').close(); import time; time.sleep(100)")
    before = set(children(os.getpid()))
    errors = []

    def launch():
        with pytest.raises(NodeLost, match="SIGKILL") as caught:
            flota.launch("train.py")
        errors.append(caught.value)

    thread = threading.Thread(target=launch)
    thread.start()
    wait_until((tmp_path / "ready").exists, "the worker")
    [outer] = set(children(os.getpid())) - before
    [shepherd] = children(outer)
    [node] = children(shepherd)
    os.kill(node, signal.SIGKILL)
    thread.join(20)

    assert len(errors) == 1
