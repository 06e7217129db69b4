"""Two workers that write as fast as they can, not shown: a launcher must not slow down their logs."""

from __future__ import annotations

from functools import partial

from bench.harness import FLOTA, PLAIN, TORCHRUN, alternate, directory, launch
from bench.processes import Broken, finish
from bench.table import Row
from bench.writer import LINE_LENGTH, LINES, WRITERS, Writer, built_writer, log_size, rate, shell

BAR = 0.9


def measure() -> list[Row]:
    with built_writer() as writer:
        took = alternate(
            {
                PLAIN: (9, partial(_seconds, shell(f"exec {writer.plain} > log/$RANK"))),
                FLOTA: (9, partial(_seconds, _launched(FLOTA, writer, "--console", "none"))),
                TORCHRUN: (3, partial(_seconds, _launched(TORCHRUN, writer, "--redirects", "3"))),
            }
        )
    ratio = took[PLAIN] / took[FLOTA]
    return [
        Row(
            "2 x 200 MB of lines to files",
            _shown(took[FLOTA]),
            ratio=f"{ratio:.2f}x a redirect",
            bar=f">= {BAR}x a shell redirect",
            met=ratio >= BAR,
            torchrun=_shown(took[TORCHRUN]),
            plain=_shown(took[PLAIN]),
        )
    ]


def _launched(launcher: str, writer: Writer, *flags: str) -> list[str]:
    return launch(launcher, WRITERS, *flags, *writer.launched)


def _seconds(command: list[str]) -> float:
    with directory() as here:
        (here / "log").mkdir()
        seconds = finish(command, here).seconds
        if log_size(here / "log") < WRITERS * LINES * LINE_LENGTH:
            raise Broken(f"`{' '.join(command)}` did not write all lines")
    return seconds


def _shown(seconds: float) -> str:
    return f"{rate(seconds):,.0f} MB/s"
