"""Writes docs/pictures: terminal pictures of real jobs, as SVG.

python docs/make_pictures.py [NAME…]     all pictures, or those of these scenes

Each job runs in a pseudo-terminal, in namespaces of its own: its host is called gpu01, its directory is /mnt/job, and
process ids are small. Only durations differ from one run to the next.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import sys
import tempfile
import termios
import time
from html import escape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyte
from pyte.screens import Char

PICTURES = Path(__file__).parent / "pictures"
SCRIPTS = PICTURES / "scripts"
FLOTA = Path(sys.executable).parent / "flota"
SIZES = ((80, 24), (200, 50))
HOST = "gpu01"
LIMIT = 60.0  # seconds for one job
SETTLE = 0.3  # seconds: what is printed together is shown together


class Scene(NamedTuple):
    """A job, and what it must print. The picture is taken when the job has ended; with `running`, when it has printed
    that. `missing`: the rank whose data is missing; with `repaired`, until that is printed."""

    title: str
    command: str
    prints: str
    running: bool = False
    missing: int = -1
    repaired: bool = False


SCENES = {
    "start": Scene("A job that has just started", "flota train.py", "step  20", running=True),
    "restart": Scene(
        "A job restarts after a failure", "flota --max_restart 3 train.py", "; restart", missing=2, repaired=True
    ),
    "failure": Scene("The failure report", "flota train.py", "rank 2 failed", missing=2),
    "progress": Scene(
        "Progress bars of two ranks", "flota --devices 0,1 --console all finetune.py", " 5[0-9]%", running=True
    ),
    "status": Scene("The status line of a running job", "flota pretrain.py", "it/s", running=True),
    "top": Scene("The live view of a job", "flota --view --max_restart 3 longrun.py", "slow [12]", running=True),
    "success": Scene("A job that finished successfully", "flota train.py", "4 workers (finished|ended)"),
}


class WrongPicture(Exception):
    """The job did not print what the picture is about, or took too long."""


def main(names: list[str]) -> int:
    unknown = set(names) - set(SCENES)
    if unknown:
        print(f"no such scene: {', '.join(sorted(unknown))}; there are {', '.join(SCENES)}", file=sys.stderr)
        return 2
    for name in names or SCENES:
        for columns, rows in SIZES:
            screen = pyte.Screen(columns, rows)
            pyte.ByteStream(screen).feed(typed(SCENES[name]) + record(SCENES[name], columns, rows))
            path = PICTURES / f"{name}-{columns}x{rows}.svg"
            path.write_text(draw(screen, SCENES[name].title))
            print(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    return 0


def typed(scene: Scene) -> bytes:
    return f"$ {scene.command}\r\n".encode()


def record(scene: Scene, columns: int, rows: int) -> bytes:
    """What the job prints up to the moment of the picture, and the next prompt if it has ended by then."""
    with tempfile.TemporaryDirectory(prefix="flota-pictures-") as directory:
        job = Path(directory) / "job"
        shutil.copytree(SCRIPTS, job, ignore=shutil.ignore_patterns("__pycache__"))
        (job / "data").mkdir()
        shards = [job / "data" / f"shard-{rank}.bin" for rank in range(4)]
        for rank, shard in enumerate(shards):
            if rank != scene.missing:
                shard.touch()
        pid, terminal = start(scene.command, directory, columns, rows)
        printed, found, deadline = b"", None, time.monotonic() + LIMIT
        try:
            while select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
                new = read(terminal)
                if not new:
                    break
                printed += new
                if not found and (found := re.search(scene.prints.encode(), printed)):
                    if scene.repaired:
                        shards[scene.missing].touch()
                    if scene.running:
                        deadline = time.monotonic() + SETTLE
            ended = time.monotonic() < deadline
            if not found or ended == scene.running:
                raise WrongPicture(f"`{scene.command}` printed:\n{printed.decode()}")
            return printed + b"$ " if ended else printed
        finally:
            # Of the namespace's first process: unshare exits when the kernel has ended all others as well.
            below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            os.kill(int(below[0]) if below else pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(terminal)


def start(command: str, directory: str, columns: int, rows: int) -> tuple[int, int]:
    """The job's pid and its terminal."""
    own = ["--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    own += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    # The shell stays: flota is not the namespace's process 1, which gets no default signals.
    script = f'hostname {HOST} && mount --bind "$1" /mnt && cd /mnt/job && shift && "$@"; exit $?'
    words = ["unshare", *own, "sh", "-c", script, "sh", directory, str(FLOTA), *command.split()[1:]]
    environ = {
        "PATH": os.environ["PATH"],
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3",
    }
    pid, terminal = pty.fork()
    if pid == 0:
        termios.tcsetwinsize(0, (rows, columns))
        os.execvpe(words[0], words, environ)
    return pid, terminal


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # EIO: the last process has closed its end
        return b""


# The drawing. A dark window with a border is readable on light and on dark pages.
CELL, LINE, SIZE, MARGIN, TOP = 8.4, 18, 14, 14, 36
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
BACKGROUND, BORDER, TEXT, FAINT = "#16191f", "#5b6472", "#dfe3e8", "#9aa4b1"
COLOURS = {
    "black": FAINT,
    "red": "#ff7a72",
    "green": "#7fd88f",
    "brown": "#e8c15a",  # pyte's name of yellow
    "blue": "#7db4ff",
    "magenta": "#d7a1f0",
    "cyan": "#6fd6dd",
    "white": TEXT,
}


def draw(screen: pyte.Screen, title: str) -> str:
    """The screen down to its last line with text."""
    rows = [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]
    used = max(y for y, row in enumerate(rows) if any(char.data.strip() for char in row)) + 1
    width, height = screen.columns * CELL + 2 * MARGIN, TOP + used * LINE + MARGIN
    lines = [part for y, row in enumerate(rows[:used]) for part in draw_row(row, TOP + y * LINE)]
    if not screen.cursor.hidden and screen.cursor.y < used:
        x, y = MARGIN + screen.cursor.x * CELL, TOP + screen.cursor.y * LINE
        lines.append(f'<rect x="{x:.1f}" y="{y}" width="{CELL}" height="{LINE}" fill="{FAINT}"/>')
    text = escape("\n".join("".join(char.data for char in row).rstrip() for row in rows[:used]))
    drawn = "\n".join(lines)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" \
role="img" aria-labelledby="title text" xml:space="preserve">
<title id="title">{escape(title)}</title>
<desc id="text">{text}</desc>
<style>text {{ font-family: {FONTS}; font-size: {SIZE}px; white-space: pre; }}</style>
<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1}" rx="8" fill="{BACKGROUND}" stroke="{BORDER}"/>
{"".join(f'<circle cx="{x}" cy="16" r="5" fill="{BORDER}"/>' for x in (18, 36, 54))}
<text x="{width / 2:.0f}" y="21" text-anchor="middle" fill="{FAINT}">{HOST}</text>
{drawn}
</svg>
"""


def draw_row(row: list[Char], top: float) -> list[str]:
    """A text for each run of characters that look the same, and a rectangle where the background is another one."""
    parts, x = [], MARGIN + 0.0
    for look, group in groupby(row, key=lambda char: char._replace(data="")):
        chars = list(group)
        text, length = "".join(char.data for char in chars), len(chars) * CELL
        front, back = colour(look.fg, TEXT), colour(look.bg, BACKGROUND)
        if look.reverse:
            front, back = back, front
        if back != BACKGROUND:
            parts.append(f'<rect x="{x:.1f}" y="{top}" width="{length:.1f}" height="{LINE}" fill="{back}"/>')
        if text.strip():
            stripped = text.rstrip()
            bold = ' font-weight="bold"' if look.bold else ""
            parts.append(
                f'<text x="{x:.1f}" y="{top + LINE - 5}" textLength="{len(stripped) * CELL:.1f}" '
                f'lengthAdjust="spacingAndGlyphs" fill="{front}"{bold}>{escape(stripped)}</text>'
            )
        x += length
    return parts


def colour(name: str, default: str) -> str:
    """pyte has names for the first 16 colours, and hexadecimal numbers for the others."""
    if name == "default":
        return default
    return COLOURS.get(name.removeprefix("bright"), f"#{name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
