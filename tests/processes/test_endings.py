"""How jobs end: exit codes, restarts, signals, and what the last screen says."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time

import pytest

from tests.launching import EXIT_DEADLINE, SHEPHERD, assert_nobody_left, children, state, wait_until


def report(flota):
    return json.loads((flota.directory / "log" / "report.json").read_text())


def events(flota):
    """What is there so far: the file comes after the workers."""
    paths = (flota.directory / "log").glob("events.*.jsonl")
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


@pytest.mark.parametrize("code", [1, 2, 3, 7, 42, 101, 127, 255])
def test_the_exit_code_is_the_culprits_own(flota, code):
    result = flota.run("--nproc_per_node", 3, "fails.py", env={"FAIL_HOW": str(code)})

    assert result.returncode == code
    assert "rank=[1] was aborted" in result.stderr
    assert f"rank 1 failed first: exit code {code} after" in result.stderr
    assert report(flota)["failures"][0]["exit_code"] == code


@pytest.mark.parametrize(
    ("name", "words"),
    [("SIGKILL", "killed"), ("SIGSEGV", "segmentation fault"), ("SIGABRT", "aborted"), ("SIGUSR1", "")],
)
def test_a_signal_is_reported_by_name_and_as_128_plus_n(flota, name, words):
    result = flota.run("--nproc_per_node", 2, "fails.py", env={"FAIL_HOW": name})

    assert result.returncode == 128 + getattr(signal, name)
    assert f"rank 1 failed first: {name}" in result.stderr
    assert words in result.stderr
    assert report(flota)["failures"][0]["signal"] == getattr(signal, name)


def test_workers_that_flota_stopped_are_not_failures(flota):
    flota.run("--nproc_per_node", 4, "fails.py", env={"FAIL_RANK": "2"})

    assert [failure["rank"] for failure in report(flota)["failures"]] == [2]
    assert report(flota)["stopped_by_flota"] == [0, 1, 3]


def test_the_failure_report_has_the_traceback_and_the_log_in_15_lines(flota):
    deep = "def f(n):\n    return f(n - 1) if n else 1 / 0\ndef g(n):\n    return f(n)\ng(30)\n"
    (flota.directory / "deep.py").write_text(deep)

    result = flota.run("--log_level", "ERROR", "deep.py")

    lines = result.stderr.splitlines()
    assert len(lines) <= 15
    assert lines[0] == "ABORT!!! The trainer process with rank=[0] was aborted. Please check its log."
    assert lines[-2].strip() == "ZeroDivisionError: division by zero"
    assert lines[-1] == f"log: {flota.directory}/log/workerlog.0"


def test_without_a_traceback_the_last_lines_are_shown(flota):
    (flota.directory / "quiet.py").write_text("import sys\nfor n in range(50): print('line', n)\nsys.exit(9)")

    result = flota.run("--log_level", "ERROR", "quiet.py")

    assert "  line 49" in result.stderr
    assert "line 30" not in result.stderr


def test_a_traceback_of_an_earlier_job_in_the_same_log_is_not_shown(flota):
    flota.run("fails.py", env={"FAIL_RANK": "0"})

    result = flota.run("fails.py", env={"FAIL_RANK": "0", "FAIL_HOW": "5"})

    assert result.returncode == 5
    assert "Traceback" not in result.stderr


def test_torchs_error_file_gives_the_traceback(flota):
    text = '{"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback (recorded)\\nValueError: recorded", "timestamp": "1"}}}'
    code = f"import os, sys\nopen(os.environ['TORCHELASTIC_ERROR_FILE'], 'w').write({text!r})\nsys.exit(1)"
    (flota.directory / "recorded.py").write_text(code)

    result = flota.run("recorded.py")

    assert "  ValueError: recorded" in result.stderr


def test_an_earlier_rounds_error_file_is_not_read_again(flota):
    code = """
import os, sys
if os.environ["FLOTA_ATTEMPT"] == "0":
    open(os.environ["TORCHELASTIC_ERROR_FILE"], "w").write('{"message": "recorded in round 0"}')
sys.exit(1)
"""
    (flota.directory / "w.py").write_text(code)

    result = flota.run("--max_restart", 1, "w.py")

    assert "recorded in round 0" not in result.stderr


def test_a_signal_is_not_explained_by_a_traceback_that_was_caught_long_before(flota):
    code = "import os, traceback\ntry: 1 / 0\nexcept ZeroDivisionError: traceback.print_exc()\nfor n in range(30): print('step', n)\nos.kill(os.getpid(), 9)"
    (flota.directory / "w.py").write_text(code)

    result = flota.run("--log_level", "ERROR", "w.py")

    assert "  step 29" in result.stderr
    assert "ZeroDivisionError" not in result.stderr


def test_a_failure_is_acted_upon_while_the_console_is_stalled(flota):
    """Nobody reads stdout, and rank 0 has filled it; rank 1 fails, and both are gone."""
    code = """
import os, time
if os.environ["RANK"] == "0":
    for n in range(200000): print("x" * 80)
    open("filled", "w")
    time.sleep(600)
while not os.path.exists("filled"): time.sleep(0.01)
raise SystemExit(6)
"""
    (flota.directory / "w.py").write_text(code)
    running = flota.start("--nproc_per_node", 2, "w.py")

    wait_until((flota.directory / "log" / "report.json").exists, "the report")

    assert report(flota)["exit_code"] == 6
    running.output()


def test_a_plain_job_that_fails_is_not_restarted(flota):
    flota.run("--nproc_per_node", 2, "fails.py")

    assert not (flota.directory / "ready.1.1").exists()
    assert report(flota)["rounds"] == 1


@pytest.mark.parametrize("flags", [["--max_restart", 2], ["--max-restarts", 2], ["--elastic_level", 1]])
def test_n_restarts_are_n_plus_1_runs(flota, flags):
    limit = flags[1] if "max" in flags[0] else 3

    result = flota.run("--nproc_per_node", 2, *flags, "fails.py")

    assert result.returncode == 1
    assert (flota.directory / f"ready.1.{limit}").exists()
    assert not (flota.directory / f"ready.1.{limit + 1}").exists()
    assert report(flota)["rounds"] == limit + 1
    assert report(flota)["attempt"] == limit


def test_a_job_succeeds_if_a_restart_helps(flota):
    result = flota.run("--nproc_per_node", 2, "--max_restart", 3, "fails.py", env={"FAIL_UNTIL": "1"})

    assert result.returncode == 0
    assert "restarting (2 of 3)" in result.stderr
    assert "rank 0 ends well on attempt 2" in result.stdout
    assert report(flota)["verdict"] == "succeeded"


def test_every_round_has_fresh_ports(flota):
    code = "import os, sys\nprint('PORT', os.environ['MASTER_PORT'], flush=True)\nsys.exit(os.environ['FLOTA_ATTEMPT'] != '3')"
    (flota.directory / "ports.py").write_text(code)

    result = flota.run("--max_restart", 3, "ports.py")

    ports = [line.split()[1] for line in flota.log(0).splitlines() if line.startswith("PORT")]
    assert result.returncode == 0
    assert len(set(ports)) == len(ports) == 4


def test_at_elastic_level_0_a_failing_node_leaves(flota):
    result = flota.run("--nproc_per_node", 2, "--elastic_level", 0, "fails.py", env={"FAIL_HOW": "6"})

    assert result.returncode == 6
    assert report(flota)["rounds"] == 1


def test_a_program_that_cannot_be_run_is_not_restarted(flota):
    program = flota.directory / "not_a_program"
    program.write_bytes(b"\x7fELF nonsense")
    program.chmod(0o755)

    result = flota.run("--max_restart", 3, "./not_a_program")

    assert result.returncode == 127
    assert "rank 0 could not be started\n  Exec format error: ./not_a_program" in result.stderr
    assert report(flota)["rounds"] == 1


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129), ("SIGQUIT", 131)])
def test_a_stop_sends_sigterm_to_workers(flota, name, code):
    running = flota.start("--nproc_per_node", 2, "echoes_signals.py")
    running.wait_for("ready.0.0", "ready.1.0")

    os.kill(running.pid, getattr(signal, name))

    assert running.wait() == code
    assert flota.log(0) == flota.log(1) == "got SIGTERM\n"
    assert report(flota)["verdict"] == "stopped"


def test_a_stop_reaches_the_worker_only_not_its_children(flota):
    code = """
import os, pathlib, signal, sys, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, lambda *_: pathlib.Path("child got SIGTERM").touch())
    pathlib.Path("child").touch()
    time.sleep(600)
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.3), sys.exit(0)))
while not os.path.exists("child"): time.sleep(0.01)
pathlib.Path("ready").touch()
time.sleep(600)
"""
    (flota.directory / "saves.py").write_text(code)
    running = flota.start("saves.py")
    running.wait_for("ready")

    os.kill(running.pid, signal.SIGTERM)

    assert running.wait() == 143
    assert not (flota.directory / "child got SIGTERM").exists()


def test_a_deaf_worker_is_killed_when_the_grace_is_over(flota):
    running = flota.start("--grace", "0.3s", "ignores_sigterm.py")
    running.wait_for("ready.0.0")

    os.kill(running.pid, signal.SIGTERM)

    assert running.wait() == 143


def test_the_grace_counts_also_when_a_worker_fails(flota):
    code = """
import os, signal, time
if os.environ["RANK"] == "1":
    while not os.path.exists("deaf"): time.sleep(0.01)
    raise SystemExit(4)
signal.signal(15, signal.SIG_IGN)
open("deaf", "w")
time.sleep(600)
"""
    (flota.directory / "w.py").write_text(code)

    assert flota.run("--nproc_per_node", 2, "--shutdown-timeout", "1", "w.py", timeout=EXIT_DEADLINE).returncode == 4


def test_a_second_ctrl_c_kills_at_once(flota):
    running = flota.start("--grace", "600", "ignores_sigterm.py")
    running.wait_for("ready.0.0")

    os.kill(running.pid, signal.SIGINT)
    wait_until(lambda: any(event["event"] == "stop_requested" for event in events(flota)), "the first to be heard")
    os.kill(running.pid, signal.SIGINT)

    assert running.wait() == 130


def test_a_second_sigterm_does_not_cut_the_grace_short(flota):
    code = "import os, pathlib, signal, sys, time\nsignal.signal(15, lambda *_: (time.sleep(0.5), pathlib.Path('saved').touch(), sys.exit(0)))\npathlib.Path('up').touch()\ntime.sleep(600)"
    (flota.directory / "saves.py").write_text(code)
    running = flota.start("saves.py")
    running.wait_for("up")

    for _ in range(3):
        os.kill(running.pid, signal.SIGTERM)
        time.sleep(0.05)

    assert running.wait() == 143
    assert (flota.directory / "saved").exists()


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2"])
def test_user_signals_are_passed_on(flota, name):
    running = flota.start("--nproc_per_node", 2, "echoes_signals.py")
    running.wait_for("ready.0.0", "ready.1.0")

    os.kill(running.pid, getattr(signal, name))
    wait_until(lambda: f"got {name}" in flota.log(1) and f"got {name}" in flota.log(0), "both to get it")
    os.kill(running.pid, signal.SIGTERM)

    assert running.wait() == 143


def test_signals_to_handle_makes_a_user_signal_a_stop(flota):
    running = flota.start("--signals-to-handle", "SIGTERM,SIGUSR2", "--grace", "1", "echoes_signals.py")
    running.wait_for("ready.0.0")

    os.kill(running.pid, signal.SIGUSR2)

    assert running.wait() == 128 + signal.SIGUSR2
    assert flota.log(0) == "got SIGUSR2\n"


def test_a_signal_that_cannot_be_handled_is_a_warning(flota):
    words = ("--signals-to-handle", "SIGTERM, SIGUSR2,FOO,SIGKILL", "--grace", "1", "echoes_signals.py")
    running = flota.start(*words)
    running.wait_for("ready.0.0")

    running.process.send_signal(signal.SIGUSR2)

    assert "flota: warning: --signals-to-handle: cannot handle FOO, SIGKILL\n" in running.output()[1]
    assert running.process.returncode == 128 + signal.SIGUSR2


def test_ctrl_z_and_continue_reach_the_workers(flota):
    running = flota.start("forks_child.py")
    running.wait_for("ready.0.0")
    worker = children(running.shepherd())[0]
    (child,) = children(worker)

    os.kill(running.pid, signal.SIGTSTP)
    wait_until(lambda: state(worker) == state(child) == state(running.pid) == "T", "all to be suspended")
    os.kill(running.pid, signal.SIGCONT)
    wait_until(lambda: state(worker) == state(child) == state(running.pid) == "S", "all to go on")
    os.kill(running.pid, signal.SIGTERM)

    assert running.wait() == 143


def test_nohup_stays_in_force(flota):
    running = flota.start("echoes_signals.py", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    running.wait_for("ready.0.0")

    os.kill(running.pid, signal.SIGHUP)
    os.kill(running.pid, signal.SIGUSR1)  # proof that signals sent before it have been seen
    wait_until(lambda: "got SIGUSR1" in flota.log(0), "the next signal")

    assert running.process.poll() is None
    os.kill(running.pid, signal.SIGTERM)
    assert running.wait() == 143


def test_workers_do_not_inherit_pythons_ignored_sigpipe(flota):
    result = flota.run("--no-python", "sh", "-c", "grep SigIgn /proc/$$/status")

    ignored = int(result.stdout.split()[-1], 16)
    assert not ignored >> (signal.SIGPIPE - 1) & 1


def test_a_closed_stdout_stops_the_console_not_the_training(flota):
    code = "import sys, pathlib\nfor n in range(100000): print('x' * 80)\npathlib.Path('trained to the end').touch()"
    (flota.directory / "long.py").write_text(code)
    running = flota.start("long.py")

    running.process.stdout.readline()
    running.process.stdout.close()
    running.process.stdout = None

    assert running.wait() == 0
    assert (flota.directory / "trained to the end").exists()


def test_a_fixed_port_can_be_used_again_by_the_next_round(flota):
    """Rank 0 serves on it and closes the connection itself, so that it lingers in TIME_WAIT."""
    code = """
import os, socket, sys
host, port = os.environ["PADDLE_CURRENT_ENDPOINT"].split(":")
server = socket.create_server((host, int(port)))
client = socket.create_connection((host, int(port)))
accepted = server.accept()[0]
accepted.close()
client.recv(1)
sys.exit(os.environ["FLOTA_ATTEMPT"] != "2")
"""
    (flota.directory / "serves.py").write_text(code)

    result = flota.run("--start_port", 27170, "--max_restart", 2, "serves.py")

    assert (result.returncode, report(flota)["rounds"]) == (0, 3), result.stderr


def test_a_restart_that_cannot_take_place_ends_with_the_culprits_code(flota):
    (flota.directory / "waits.py").write_text(
        "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nraise SystemExit(9)"
    )
    running = flota.start("--start_port", 27180, "--max_restart", 2, "--join-timeout", 0.5, "waits.py")
    wait_until(lambda: children(running.pid) and children(running.shepherd()), "the worker")
    with socket.create_server(("127.0.0.1", 27180), reuse_port=True):
        (flota.directory / "go").touch()

        assert running.wait() == 9
    assert report(flota)["rounds"] == 1


def test_a_lost_shepherd_is_in_the_event_log(flota):
    running = flota.start("sleeps.py")
    running.wait_for("ready.0.0")

    os.kill(running.shepherd(), signal.SIGKILL)
    running.wait()

    (failure,) = report(flota)["failures"]
    assert (failure["rank"], failure["cause"], failure["signal"]) == (None, "shepherd-lost", 9)
    assert "shepherd_lost" in [event["event"] for event in events(flota)]


def test_a_script_that_removes_the_log_directory_still_runs(flota):
    # flota may be about to put a file into it.
    code = "import shutil, os, sys\nwhile os.path.exists('log'): shutil.rmtree('log', ignore_errors=True)\nsys.exit(8)"
    (flota.directory / "cleans.py").write_text(code)

    result = flota.run("cleans.py")

    assert (result.returncode, "Traceback" in result.stderr) == (8, False)


def test_events_tell_the_story_to_programs(flota):
    flota.run("--nproc_per_node", 2, "--max_restart", 1, "fails.py", env={"FAIL_UNTIL": "0"})

    story = [event["event"] for event in events(flota)]
    assert story[0] == "job_started"
    assert story.count("worker_started") == 4
    assert story.count("round_started") == 2
    assert story[-1] == "job_ended"
    exits = [event for event in events(flota) if event["event"] == "worker_exited"]
    assert {(event["rank"], event["code"], event["asked_to_stop"]) for event in exits[:2]} == {
        (1, 1, False),
        (0, -15, True),
    }


def test_events_reach_stderr_when_asked(flota):
    result = flota.run("--event-log-handler", "console", "prints.py", env={"LINES_TO_PRINT": "1"})

    parsed = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    assert parsed[0]["event"] == "job_started"


def test_a_job_that_only_runs_true_succeeds(flota):
    result = flota.run("--nproc_per_node", 8, "--no-python", "true")

    assert result.returncode == 0
    assert_nobody_left()


def test_a_bug_in_flota_leaves_no_process_behind(flota):
    """The node dies of an exception of its own after the start: the shepherd cleans up."""
    code = "import flota.run.single_node as w\nw.SingleNode.run = lambda *_: 1 / 0\nfrom flota.cli.main import main\nimport sys\nsys.exit(main(sys.argv[1:]))"
    import sys

    running = flota.start("--nproc_per_node", 2, "forks_daemon.py", command=[sys.executable, "-c", code])

    assert running.wait() == 70
    assert_nobody_left()


def test_the_shepherd_has_a_name(flota):
    running = flota.start("sleeps.py")
    running.wait_for("ready.0.0")

    name = subprocess.run(
        ["ps", "-o", "comm=", "-p", str(running.shepherd())], capture_output=True, text=True, check=True
    ).stdout
    assert name.strip() == SHEPHERD


JAX = """
import atexit, time

class distributed:
    initialize = is_initialized = staticmethod(lambda: True)

atexit.register(time.sleep, 1000)  # the barrier at which JAX waits for the other ranks
"""
RAISES = """
import jax
jax.distributed.initialize()
raise KeyError("lost sample")
"""


def test_a_rank_of_jax_that_raised_does_not_wait_for_the_others(flota):
    (flota.directory / "jax.py").write_text(JAX)
    (flota.directory / "train.py").write_text(RAISES)

    ended = flota.run("train.py")

    assert ended.returncode == 1
    assert "rank 0 failed first: exit code 1 (KeyError)" in ended.stderr
