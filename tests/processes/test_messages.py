"""What flota prints of itself: one line at the start, restarts, how it stops and ends."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import termios

import pytest

from tests.launching import COMMAND, wait_until

HOST = os.uname().nodename
FAILS_TWICE = """\
import os
if os.environ["FLOTA_RANK"] == "1" and int(os.environ["FLOTA_ATTEMPT"]) < 2:
    open("data/shard.bin")
"""
RAISES = "raise ValueError('no such thing')\n"


def script(flota, code):
    (flota.directory / "script.py").write_text(code)
    return "script.py"


def on_terminal(flota, *words, columns=80, **options):
    """Run flota with stdout and stderr on one terminal, and give what is on it."""
    master, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    running = flota.start(*words, stdout=terminal, stderr=terminal, **options)
    os.close(terminal)
    shown = b""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        shown += data
    running.wait()
    os.close(master)
    return re.sub(r"\033\[[\d;]*m", "", shown.decode())


@pytest.mark.parametrize(
    ("words", "env", "line"),
    [
        ([], {}, f"1 worker on {HOST} (CPU), all output in log/"),
        (["--nproc_per_node", "2"], {}, f"2 workers on {HOST} (CPU), showing rank 0, all output in log/"),
        (["--console", "all", "--nproc_per_node", "2"], {}, f"2 workers on {HOST} (CPU), showing all ranks, "),
        (["--console", "none", "--nproc_per_node", "2"], {}, f"2 workers on {HOST} (CPU), showing no ranks, "),
        (["--log_dir", "out"], {"CUDA_VISIBLE_DEVICES": "2,3"}, f"2 workers on {HOST} (devices 2-3), showing rank 0, "),
        (["--server_num", "1", "--trainer_num", "2"], {}, f"1 server, 2 trainers on {HOST} (CPU), showing rank 0, "),
    ],
)
def test_a_job_starts_with_one_line(flota, words, env, line):
    result = flota.run(*words, script(flota, ""), env=env)

    first, *others = result.stderr.splitlines()
    assert first.startswith(f"flota: {line}")
    assert [line for line in others if "for 1 server to exit" not in line] == others[-1:]
    assert "finished successfully in" in others[-1]


@pytest.mark.parametrize("words", [["--verbose"], ["--framework", "paddle"]])
def test_settings_and_variables_are_shown_on_request(flota, words):
    result = flota.run(*words, script(flota, ""))

    assert "Configuration Arguments" in result.stderr and "PADDLE_TRAINER_ID" in result.stderr


def test_fleetrun_shows_what_it_does_in_paddle(flota):
    result = flota.run(script(flota, ""), command=[COMMAND.parent / "fleetrun"])

    assert "Configuration Arguments" in result.stderr and "Local start 1 processes." in result.stderr


def test_nothing_wraps_on_a_terminal_of_80_columns(flota):
    words = [*"--framework paddle --nproc_per_node 4".split(), script(flota, ""), *["--long-argument"] * 20]
    shown = on_terminal(flota, *words, columns=80)

    assert "Configuration Arguments" in shown and "PADDLE_TRAINER_ENDPOINTS" in shown
    assert [line for line in shown.splitlines() if len(line) > 80] == []


def test_quiet_shows_only_errors(flota):
    assert flota.run("-q", script(flota, "print('hello')")).stderr == ""

    result = flota.run("--quiet", script(flota, RAISES))

    assert result.stderr.startswith("ABORT!!!") and "flota: " not in result.stderr


def test_success_after_restarts_says_why_there_were_any(flota):
    result = flota.run("--nproc_per_node", 2, "--max_restart", 3, script(flota, FAILS_TWICE))

    lines = result.stderr.splitlines()
    restarts = [number for number, line in enumerate(lines) if "; restarting" in line]
    assert [lines[number].rpartition("; ")[2] for number in restarts] == ["restarting (1 of 3)", "restarting (2 of 3)"]
    for number in restarts:
        assert lines[number].startswith("flota: warning: rank 1 failed: exit code 1 (FileNotFoundError) after ")
        assert lines[number + 1 : number + 3] == [
            "  FileNotFoundError: [Errno 2] No such file or directory: 'data/shard.bin'",
            f"  log: {flota.directory}/log/workerlog.1",
        ]
    past = r"2 restarts: rank 1 FileNotFoundError at 0m\d\ds, rank 1 FileNotFoundError at 0m\d\ds"
    assert re.fullmatch(rf"flota: all 2 workers finished successfully in [\d.]+ s \({past}\)", lines[-1])
    why = subprocess.run([COMMAND, "why"], cwd=flota.directory, capture_output=True, text=True)
    assert re.search(past, why.stdout)
    report = json.loads((flota.directory / "log/report.json").read_text())
    assert [one["reason"] for one in report["restarts"]] == ["rank 1 FileNotFoundError"] * 2
    assert report["lost_nodes"] == []


def test_a_failed_job_says_what_had_failed_before(flota):
    result = flota.run("--nproc_per_node", 2, "--max_restart", 1, script(flota, FAILS_TWICE))

    assert "before that: 1 restart: rank 1 FileNotFoundError at " in result.stderr


@pytest.mark.parametrize("rank", [0, 1])
def test_a_traceback_is_not_shown_twice(flota, rank):
    code = f"import os, time\nif os.environ['FLOTA_RANK'] == '{rank}':\n    {RAISES}time.sleep(60)\n"
    shown = on_terminal(flota, "--nproc_per_node", 2, script(flota, code))

    assert shown.count("Traceback") == 1
    assert shown.count("ValueError: no such thing") == (2 if rank == 0 else 1)
    why = subprocess.run([COMMAND, "why"], cwd=flota.directory, capture_output=True, text=True)
    assert why.stdout.count("Traceback") == 1


def test_ctrl_c_says_what_it_waits_for_and_that_a_second_one_kills(flota):
    running = flota.start("--nproc_per_node", 2, "ignores_sigterm.py")
    running.wait_for("ready.0.0", "ready.1.0")
    os.kill(running.pid, signal.SIGINT)
    own_log = flota.directory / f"log/default.{HOST}.log"
    wait_until(lambda: own_log.exists() and "stopping 2 workers" in own_log.read_text(), "the first signal's message")
    os.kill(running.pid, signal.SIGINT)
    _, err = running.output()

    assert "flota: stopping 2 workers (up to 30 s; press Ctrl-C again to kill now)\n" in err
    assert "flota: killing 2 workers\n" in err
    assert "flota: stopped by SIGINT after " in err.splitlines()[-1]
