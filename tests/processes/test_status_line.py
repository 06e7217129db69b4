"""The status line on a real pseudo-terminal: what a person sees while a job runs, and what is left at its end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import termios

import pytest

from tests.launching import COMMAND, script, state, wait_until
from tests.processes.test_progress_bars import HOST, PseudoTerminal, start

STATUS = " step 1,240/5,000  loss 0.213"


@pytest.fixture
def terminal():
    made = PseudoTerminal()
    yield made
    made.close()


def shows(terminal, *rows):
    wait_until(lambda: terminal.shows([*rows]), f"these last rows: {rows}; there are {terminal.screen[-8:]}")


def finish(flota, running, terminal):
    """Ends the job. Returns what is on the terminal then."""
    (flota.directory / "go").touch()
    wait_until(lambda: terminal.read() or running.process.poll() is not None, "the end of the job")
    assert running.wait() == 0
    terminal.read()
    return terminal.text


def test_it_is_there_while_the_job_runs_and_gone_at_its_end(flota, terminal):
    running = start(flota, terminal, "--nproc_per_node", 2, "reports_steps.py", "print('hello', flush=True)")

    shows(terminal, "hello", STATUS)
    text = finish(flota, running, terminal)

    assert [row.partition(" in ")[0] for row in text] == [
        f"flota: 2 workers on {HOST} (CPU), showing rank 0, all output",
        "hello",
        "flota: all 2 workers finished successfully",
    ]


def test_nothing_is_left_even_if_flota_prints_nothing(flota, terminal):
    running = start(flota, terminal, "--log_level", "ERROR", "reports_steps.py")

    shows(terminal, STATUS)

    assert finish(flota, running, terminal) == []


def test_new_lines_come_above_it(flota, terminal):
    lines = "wait_for('say'); [print('line', n) for n in range(60)]; sys.stdout.flush()"
    running = start(flota, terminal, "reports_steps.py", lines)
    shows(terminal, STATUS)

    (flota.directory / "say").touch()

    shows(terminal, "line 58", "line 59", STATUS)
    assert [row for row in finish(flota, running, terminal) if "line" in row] == [f"line {n}" for n in range(60)]


def test_it_has_the_pace_and_the_time_left(flota, terminal):
    code = "for step in range(10**6):\n flota.heartbeat(step, total=10**6)\n time.sleep(0.01)\n if os.path.exists('go'): break"
    running = start(flota, terminal, "reports_steps.py", code)

    def has_all_parts():
        terminal.read()
        return re.fullmatch(r" step [\d,]+/1,000,000  [\d.]+ it/s  ETA \d\d:\d\d:\d\d", terminal.screen[-1])

    wait_until(has_all_parts, "a line with pace and ETA")
    finish(flota, running, terminal)


def test_restarts_are_counted_and_flotas_own_lines_come_above_it(flota, terminal):
    running = start(
        *(flota, terminal, "--max_restart", 1, "reports_steps.py"),
        "ATTEMPT == '0' and (wait_for('fail') or sys.exit(3))",
    )
    shows(terminal, STATUS)

    (flota.directory / "fail").touch()

    shows(terminal, f"{STATUS}  1 restart")
    assert "restarting (1 of 1)" in "".join(terminal.screen[-4:-1])
    text = finish(flota, running, terminal)
    assert not [row for row in text if "step 1,240" in row]


def test_the_bar_of_a_rank_has_the_last_line_to_itself(flota, terminal):
    bar = r"wait_for('bar'); print('\r 50%', end='', flush=True); wait_for('end'); print('\r100%', flush=True)"
    running = start(flota, terminal, "reports_steps.py", bar)
    shows(terminal, STATUS)

    (flota.directory / "bar").touch()
    shows(terminal, " 50%")
    (flota.directory / "end").touch()
    shows(terminal, "100%", STATUS)

    assert [row for row in finish(flota, running, terminal) if "%" in row] == ["100%"]


def test_bars_of_two_ranks_take_its_place_and_give_it_back(flota, terminal):
    bars = (
        r"wait_for('bars'); print('\r 50%', end='', flush=True); wait_for(f'line.{RANK}')",
        r"print('\ra line of', RANK, flush=True); print('\r 60%', end='', flush=True)",
        r"wait_for('end'); print('\r100%', flush=True)",
    )
    running = start(flota, terminal, "--nproc_per_node", 2, "--console", "all", "reports_steps.py", *bars)
    shows(terminal, STATUS)

    (flota.directory / "bars").touch()
    shows(terminal, f"[{HOST}:0]  50%", f"[{HOST}:1]  50%")
    (flota.directory / "line.1").touch()
    shows(terminal, f"[{HOST}:1] a line of 1", f"[{HOST}:0]  50%", f"[{HOST}:1]  60%")
    (flota.directory / "line.0").touch()
    shows(terminal, f"[{HOST}:0] a line of 0", f"[{HOST}:0]  60%", f"[{HOST}:1]  60%")
    (flota.directory / "end").touch()
    wait_until(lambda: terminal.shows([STATUS]), "the status line")

    text = finish(flota, running, terminal)
    assert sorted(row for row in text if "%" in row) == [f"[{HOST}:0] 100%", f"[{HOST}:1] 100%"]
    assert not [row for row in text if "step" in row]


def test_it_fits_into_a_terminal_that_is_resized(flota, terminal):
    running = start(flota, terminal, "reports_steps.py", "print('hello', flush=True)")
    shows(terminal, "hello", STATUS)

    for width in (20, 3, 1, 100):
        termios.tcsetwinsize(terminal.theirs, (24, width))
        shows(terminal, "hello", STATUS[: max(1, width - 1)].rstrip())

    assert not [row for row in finish(flota, running, terminal) if "step" in row]


def test_a_terminal_that_does_not_know_its_size_is_not_wide(flota, terminal):
    termios.tcsetwinsize(terminal.theirs, (0, 0))
    running = start(flota, terminal, "reports_steps.py", "print('hello', flush=True)")

    shows(terminal, "hello", STATUS)
    finish(flota, running, terminal)


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (("--progress", "none"), {}),
        ((), {"FLOTA_PROGRESS": "none"}),
        (("-q",), {}),
        (("--interactive",), {}),
        ((), {"TERM": "dumb"}),
        ((), {"TERM": ""}),
    ],
)
def test_there_is_none_where_it_is_not_wanted(flota, terminal, words, env):
    beats = "[flota.heartbeat(1240) or time.sleep(0.1) for _ in range(30)]"
    running = start(flota, terminal, *words, "reports_steps.py", beats, **env)

    finish(flota, running, terminal)

    assert b"step" not in terminal.received
    assert b"\x1b" not in terminal.received


def test_there_is_none_in_a_pipe(flota):
    beats = "[flota.heartbeat(1240) or time.sleep(0.1) for _ in range(30)]"
    (flota.directory / "go").touch()

    ended = flota.run("reports_steps.py", beats, env={"TERM": "xterm"})

    assert "step" not in ended.stdout + ended.stderr


def test_a_job_without_steps_has_none(flota, terminal):
    running = start(flota, terminal, "prints.py", LINES_TO_PRINT="1")

    finish(flota, running, terminal)

    assert b"\x1b" not in terminal.received


def test_ctrl_z_removes_it_and_it_comes_back(flota, terminal):
    running = start(flota, terminal, "reports_steps.py", "print('hello', flush=True)")
    shows(terminal, "hello", STATUS)

    running.process.send_signal(signal.SIGTSTP)
    wait_until(lambda: state(running.pid) == "T", "flota to be suspended")
    shows(terminal, "hello", "")
    running.process.send_signal(signal.SIGCONT)

    shows(terminal, "hello", STATUS)
    finish(flota, running, terminal)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_removes_it(flota, terminal, number):
    running = start(flota, terminal, "reports_steps.py")
    shows(terminal, STATUS)

    running.process.send_signal(number)
    running.wait()
    terminal.read()

    assert not [row for row in terminal.text if "step" in row]
    assert "stopped by" in terminal.text[-1]


SHELL = """
import fcntl, os, sys, termios, time
fcntl.ioctl(1, termios.TIOCSCTTY, 0)
job = os.fork()
if not job:
    os.setpgid(0, 0)
    os.execv(sys.argv[1], sys.argv[1:])
while not os.path.exists("foreground"): time.sleep(0.01)
os.tcsetpgrp(1, job)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]))
"""


def test_a_job_in_the_background_leaves_the_terminal_to_the_shell(flota, terminal):
    beats = "[flota.heartbeat(1240) or time.sleep(0.1) for _ in range(30)]; print('ready', flush=True)"
    process = subprocess.Popen(
        [sys.executable, "-c", SHELL, COMMAND, script("reports_steps.py"), beats],
        cwd=flota.directory,
        env={**os.environ, "TERM": "xterm"},
        start_new_session=True,
        **dict.fromkeys(("stdin", "stdout", "stderr"), terminal.theirs),
    )
    wait_until(lambda: terminal.shows(["ready", ""]), "the worker's line")
    assert b"step" not in terminal.received

    (flota.directory / "foreground").touch()

    shows(terminal, "ready", STATUS)
    (flota.directory / "go").touch()
    assert process.wait(20) == 0


def test_a_terminal_that_is_not_read_does_not_stop_the_workers(flota, terminal):
    code = "for step in range(400):\n flota.heartbeat(step)\n print('x' * 100)\n time.sleep(0.01)"
    running = start(flota, terminal, "reports_steps.py", code, "sys.stdout.flush(); open('done', 'w')")

    running.wait_for("done")

    text = finish(flota, running, terminal)
    assert not [row for row in text if "step" in row]
    assert len([row for row in text if row == "x" * 100]) == 400
