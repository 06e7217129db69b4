"""Two workers that write as fast as they can, both shown: speed, completeness of the lines, and memory."""

from __future__ import annotations

import subprocess
import time
from functools import partial

from bench.harness import FLOTA, PLAIN, TORCHRUN, alternate, directory, launch
from bench.processes import PATIENCE, check_ending, resident_memory, running
from bench.table import Row
from bench.writer import LINES, WRITERS, Checker, built_writer, rate, shell

BAR = 5
FLAT = 2 << 20  # bytes by which the peak may exceed the peak of the first quarter
SAMPLED = 20_000  # lines between two samples of the memory


def measure() -> list[Row]:
    with built_writer() as writer:
        all_shown = launch(FLOTA, WRITERS, "--console", "all", *writer.launched)
        took = alternate(
            {
                PLAIN: (5, partial(_seconds, shell(f"{writer.plain} | tee log-$RANK"))),
                FLOTA: (5, partial(_seconds, all_shown)),
                TORCHRUN: (3, partial(_seconds, launch(TORCHRUN, WRITERS, "--tee", "3", *writer.launched))),
            }
        )
        checker, memory = _check(all_shown)
    ratio = took[TORCHRUN] / took[FLOTA]
    speed = Row(
        "2 x 200 MB of lines to files and shown (cat)",
        f"{rate(took[FLOTA]):,.0f} MB/s",
        ratio=f"{ratio:.1f}x torchrun",
        bar=f">= {BAR}x torchrun --tee 3",
        met=ratio >= BAR,
        torchrun=f"{rate(took[TORCHRUN]):,.0f} MB/s",
        plain=f"{rate(took[PLAIN]):,.0f} MB/s (tee)",
    )
    return [speed, _row_of_lines(checker), _row_of_memory(memory)]


def _row_of_lines(checker: Checker) -> Row:
    ratio = f"{checker.lost:,} lost, {checker.wrong:,} out of order"
    met = not checker.lost and not checker.wrong
    return Row("… lines shown", f"{sum(checker.seen):,}", ratio, f"all {WRITERS * LINES:,}, in order", met)


def _row_of_memory(samples: list[int]) -> Row:
    early, peak = max(samples[: len(samples) // 4]), max(samples)
    ratio = f"+{(peak - early) / (1 << 20):.1f} MiB after the first quarter"
    what = "… memory (RSS) of the node, a slow reader"
    return Row(what, f"{peak / (1 << 20):.1f} MiB", ratio, f"flat: +{FLAT >> 20} MiB at most", peak - early <= FLAT)


def _seconds(command: list[str]) -> float:
    """The time until the command and the reader of its pipe have both exited."""
    began = time.monotonic()
    with directory() as here, subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as cat:
        assert cat.stdin
        with running(command, here, stdout=cat.stdin.fileno()) as process:
            cat.stdin.close()
            code = process.wait(PATIENCE)
            cat.wait(PATIENCE)
            seconds = time.monotonic() - began
        check_ending(command, code, here)
    return seconds


def _check(command: list[str]) -> tuple[Checker, list[int]]:
    """Check every line by its number, and sample the node's memory in the meantime."""
    checker = Checker()
    memory = []
    with directory() as here, running(command, here, stdout=subprocess.PIPE) as process:
        assert process.stdout
        for number, line in enumerate(process.stdout):
            checker.read(line)
            if number % SAMPLED == 0:
                # Only the node's: the shepherd copies nothing, and its exit would hide growth of the node.
                memory.append(resident_memory(process.pid))
        check_ending(command, process.wait(PATIENCE), here)
    return checker, memory
