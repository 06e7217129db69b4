"""Progress bars of one rank and of several, on a real pseudo-terminal and in a pipe."""

from __future__ import annotations

import os
import termios

import pytest

from tests.launching import wait_until
from tests.terminal import Terminal

HOST = os.uname().nodename
HALF, WHOLE = "training:  50%|", "training: 100%|"


class PseudoTerminal(Terminal):
    """The terminal of a program under test."""

    def __init__(self):
        super().__init__(24, 100)
        self.ours, self.theirs = os.openpty()
        os.set_blocking(self.ours, False)
        termios.tcsetwinsize(self.theirs, (self.height, self.width))
        self.received = b""

    def read(self):
        try:
            while data := os.read(self.ours, 65536):
                self.received += data
                self.feed(data)
        except BlockingIOError:
            pass

    def shows(self, rows):
        self.read()
        return self.screen[-len(rows) :] == rows

    def close(self):
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def terminal():
    made = PseudoTerminal()
    yield made
    made.close()


def start(flota, terminal, *words, **env):
    return flota.start(*words, env={"TERM": "xterm", **env}, stdout=terminal.theirs, stderr=terminal.theirs)


def script(flota, code):
    (flota.directory / "script.py").write_text(code)
    return "script.py"


def test_bars_of_several_ranks_have_a_row_each_on_a_terminal(flota, terminal):
    running = start(flota, terminal, "--nproc_per_node", 3, "--console", "all", "draws_bar.py")

    bars = [f"[{HOST}:{rank}] {HALF}" for rank in range(3)]
    wait_until(lambda: terminal.shows(bars), "a row for each rank's bar")
    (flota.directory / "go").touch()
    assert running.wait() == 0
    terminal.read()

    shown = [row for row in terminal.text if "training:" in row]
    assert sorted(shown) == [f"[{HOST}:{rank}] {WHOLE}" for rank in range(3)]
    assert "3 workers" in terminal.text[-1]


def test_lines_of_other_ranks_come_above_the_bars(flota, terminal):
    code = """
import os, sys, time
rank = os.environ["RANK"]
if rank == "0":
    sys.stdout.write("\\r 10%")
    open("drawn", "w").close()
else:
    while not os.path.exists("drawn"): time.sleep(0.01)
    print("first line of rank 1")
while not os.path.exists("go"): time.sleep(0.01)
"""
    running = start(flota, terminal, "--nproc_per_node", 2, "--console", "all", script(flota, code))

    rows = [f"[{HOST}:1] first line of rank 1", f"[{HOST}:0]  10%"]
    wait_until(lambda: terminal.shows(rows), "the line above the bar")
    (flota.directory / "go").touch()
    running.wait()


def test_flotas_own_lines_replace_the_bars_until_they_are_printed(flota, terminal):
    """The bars come back below flota's line, and none is left above it."""
    code = """
import os, sys, time
sys.stdout.write("\\r 10%")
while not os.path.exists("go"): time.sleep(0.01)
sys.exit(os.environ["RANK"] == "1" and os.environ["FLOTA_ROUND"] == "0")
"""
    words = ["--nproc_per_node", 2, "--console", "all", "--max_restart", 1]
    running = start(flota, terminal, *words, script(flota, code))

    bars = [f"[{HOST}:{rank}]  10%" for rank in range(2)]
    wait_until(lambda: terminal.shows(bars), "both bars")
    (flota.directory / "go").touch()
    assert running.wait() == 0
    terminal.read()

    assert sorted(row for row in terminal.text if "10%" in row) == sorted(bars * 2)


def test_flotas_own_line_does_not_continue_a_bar(flota, terminal):
    name = script(flota, "import os, sys\nsys.stdout.write('\\r 50%')\nsys.exit(os.environ['FLOTA_ROUND'] == '0')")

    running = start(flota, terminal, "--max_restart", 1, name)
    assert running.wait() == 0
    terminal.read()

    assert [row for row in terminal.text if "%" in row] == [" 50%", " 50%"]


def test_bars_of_several_ranks_are_thinned_to_whole_lines_in_a_pipe(flota):
    running = flota.start("--nproc_per_node", 2, "--console", "all", "draws_bar.py")
    seen = []

    def shown():
        seen.append(running.process.stdout.readline().decode())
        return {f"[{HOST}:{rank}] {HALF}\n" for rank in range(2)} <= set(seen)

    wait_until(shown, "a line for each rank's bar")
    (flota.directory / "go").touch()
    out, _ = running.output()

    lines = "".join([*seen, out]).splitlines()
    assert "\r" not in out
    for rank in range(2):
        own = [line for line in lines if line.startswith(f"[{HOST}:{rank}] training: ")]
        assert own[-1] == f"[{HOST}:{rank}] {WHOLE}"
        assert len(own) == len(set(own))
    assert all(line.startswith(f"[{HOST}:") for line in lines)


@pytest.mark.parametrize(
    ("env", "coloured"),
    [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_prefixes_are_coloured_per_rank_on_a_terminal(flota, terminal, env, coloured):
    running = start(flota, terminal, "--nproc_per_node", 2, "--console", "all", "prints.py", LINES_TO_PRINT="1", **env)
    assert running.wait() == 0
    terminal.read()

    for rank, colour in enumerate((36, 35)):
        prefix = f"[{HOST}:{rank}]"
        shown = f"\x1b[{colour}m{prefix}\x1b[0m" if coloured else prefix
        assert f"{shown} rank {rank} line 0\r\n".encode() in terminal.received
    assert coloured or b"\x1b" not in terminal.received


def test_one_rank_is_not_coloured(flota, terminal):
    running = start(flota, terminal, "--nproc_per_node", 2, "--log_level", "ERROR", "prints.py", LINES_TO_PRINT="1")
    assert running.wait() == 0
    terminal.read()

    assert terminal.received == b"rank 0 line 0\r\n"
