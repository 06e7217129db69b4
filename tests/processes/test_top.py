"""The live view of real jobs, on a real terminal: that of tmux."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from shutil import which

import pytest

from tests.launching import COMMAND, Running, children, environment, name_of, script, wait_until
from tests.store.servers import free_ports

TMUX = which("tmux")
needs_tmux = pytest.mark.skipif(not TMUX, reason="no tmux here: make test SYSTEM=1 installs it, as root")
COLOURS = [f"\x1b[{code}m" for code in (*range(31, 38), *range(41, 48))]


class Terminal:
    """A terminal with a shell, in a tmux of its own."""

    def __init__(self, directory, width=80, height=24):
        self._directory = directory
        size = ["-x", str(width), "-y", str(height)]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(directory), "env PS1= sh")

    def _tmux(self, *words):
        # A socket has a short path.
        socket = f"flota-{os.getpid()}-{self._directory.name}"
        words = [str(TMUX), "-L", socket, "-u", *words]
        env = environment({"LANG": "C.UTF-8", "SHELL": "/bin/sh"})
        return subprocess.run(words, env=env, check=True, capture_output=True, text=True, timeout=20).stdout

    def type(self, *words, then=""):
        self._tmux("send-keys", "-l", f"{shlex.join(str(script(word)) for word in words)}{then}")
        self.press("Enter")

    def press(self, *keys):
        self._tmux("send-keys", *keys)

    def screen(self, *options):
        return self._tmux("capture-pane", "-p", *options)

    def wait_for(self, words):
        try:
            wait_until(lambda: words in self.screen(), words, 40)
        except AssertionError:
            raise AssertionError(f"no `{words}` on the screen:\n{self.screen()}") from None

    def close(self):
        self._tmux("kill-server")


@pytest.fixture
def terminal(flota, tmp_path):  # flota ends what is left
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def steps(flota, tmp_path):
    """Starts jobs whose workers report steps until the file `finish` exists."""

    def start(*flags) -> Running:
        job = flota.start("--nproc_per_node", 2, *flags, "steps.py", env={"STAGE": str(tmp_path)})
        wait_until(lambda: "job_started" in events(tmp_path), "the job to answer")
        return job

    return start


def events(directory, logs="log") -> str:
    return "".join(path.read_text() for path in (directory / logs).glob("events.*.jsonl"))


@needs_tmux
def test_the_view_of_a_running_job(steps, terminal):
    job = steps()
    terminal.type(COMMAND, "top", then="; echo left with $?")
    terminal.wait_for("2 ranks on ")
    terminal.wait_for(" step ")

    terminal.press("s")
    terminal.wait_for("MainThread")
    terminal.press("q", "x", "y")
    terminal.wait_for("ended: stopped")
    terminal.press("q")
    terminal.wait_for("left with 0")

    assert job.wait() == 143


@needs_tmux
def test_the_view_survives_a_restart_of_the_workers(steps, terminal, tmp_path):
    job = steps("--max_restart", 1)
    terminal.type(COMMAND, "top")
    terminal.wait_for(" step ")

    worker = next(pid for pid in children(job.shepherd()) if "python" in name_of(pid))
    os.kill(worker, signal.SIGKILL)
    terminal.wait_for("restarts 1 of 1")
    terminal.wait_for("SIGKILL at ")
    (tmp_path / "finish").touch()
    terminal.wait_for("ended: succeeded")

    assert job.wait() == 0


@needs_tmux
def test_the_view_goes_on_through_another_node_when_its_own_is_lost(flota, terminal, tmp_path):
    words = ["--nnodes", "1:2", "--elastic_timeout", 1, "--master", f"127.0.0.1:{free_ports(1)[0]}"]
    env = {"STAGE": str(tmp_path), "FLOTA_TOKEN": "a-token-of-the-test"}
    serving = flota.start(*words, "--log_dir", "log", "steps.py", env=env)
    wait_until(lambda: "job_started" in events(tmp_path), "the first node")
    other = flota.start(*words, "--log_dir", "log2", "steps.py", env=env)
    wait_until(lambda: "job_started" in events(tmp_path, "log2"), "the second node")
    terminal.type(COMMAND, "top", "--job", other.pid)
    terminal.wait_for("2 ranks on 2 nodes")

    os.kill(other.pid, signal.SIGKILL)

    terminal.wait_for("1 rank on ")
    terminal.wait_for(" was lost at ")
    serving.process.terminate()
    assert serving.wait() == 143


@needs_tmux
def test_a_view_without_colours_sends_none(steps, terminal):
    steps()
    terminal.type("env", "TERM=vt100", COMMAND, "top")
    wait_until(lambda: re.search(r" [3-9]\d\d ms ", terminal.screen()), "a slow step, which would be red")

    assert terminal.screen().isascii()
    assert not [colour for colour in COLOURS if colour in terminal.screen("-e")]


@needs_tmux
def test_the_output_goes_on_when_the_view_of_a_new_job_is_left(terminal, tmp_path):
    terminal.type("env", f"STAGE={tmp_path}", COMMAND, "--view", "steps.py", then="; echo code $?")
    terminal.wait_for("1 rank on ")
    terminal.press("q")
    terminal.wait_for("flota: the view has ended; the job goes on")

    (tmp_path / "finish").touch()

    terminal.wait_for("code 0")
    assert "1 worker finished successfully" in terminal.screen()


@needs_tmux
def test_a_view_waits_for_its_user_when_its_job_fails(terminal, tmp_path):
    terminal.type(COMMAND, "--view", "--nproc_per_node", 2, "fails.py", then="; echo code $?")
    terminal.wait_for("ended: failed: rank ")
    assert "code" not in terminal.screen().splitlines()[-1]

    terminal.press("q")

    terminal.wait_for("failed first")
    terminal.wait_for("code 1")


@needs_tmux
def test_the_terminal_is_restored_after_a_view_that_was_killed(terminal, tmp_path):
    terminal.type("env", f"STAGE={tmp_path}", COMMAND, "--view", "steps.py", then="; stty -a")
    terminal.wait_for("1 rank on ")
    job = json.loads(events(tmp_path).splitlines()[0])["pid"]
    view = next(pid for pid in children(job) if name_of(pid) != "shepherd")

    os.kill(view, signal.SIGKILL)

    terminal.wait_for("flota: the view has ended; the job goes on")
    (tmp_path / "finish").touch()
    terminal.wait_for(" icanon ")
    assert " echo " in terminal.screen()


def test_a_view_without_a_terminal_starts_nothing(flota):
    for words in (["top"], ["--view", "steps.py"]):
        ended = flota.run(*words)

        assert ended.returncode == 2
        assert "needs a terminal" in ended.stderr
    assert not (flota.directory / "log").exists()
