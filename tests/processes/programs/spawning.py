"""A program that starts functions as workers: `spawning.py FUNCTION [OPTION=VALUE…]`, with values in Python's words."""

from __future__ import annotations

import ast
import os
import runpy
import sys
import time
from pathlib import Path

import flota

WORKERS = Path(__file__).parents[1] / "workers"


def behaves(name: str) -> None:
    runpy.run_path(str(WORKERS / name), run_name="__main__")


def waits() -> None:
    Path(f"ready.{os.environ['FLOTA_RANK']}.0").touch()
    time.sleep(100)


def ends_slowly(seconds: float) -> None:
    Path(f"ready.{os.environ['FLOTA_RANK']}.0").touch()
    time.sleep(seconds)
    Path(f"done.{os.environ['FLOTA_RANK']}").touch()


def prints_lines(count: int) -> None:
    for number in range(count):
        print("rank", os.environ["FLOTA_RANK"], "line", number, "x" * 50)


def fails() -> None:
    raise ValueError("no data")


if __name__ == "__main__":
    options = {name: ast.literal_eval(value) for name, _, value in (word.partition("=") for word in sys.argv[2:])}
    stray = options.pop("stray", False)
    then = options.pop("then", "")
    workers = flota.spawn(globals()[sys.argv[1]], **options)
    if stray and os.fork() == 0:
        time.sleep(100)  # has a copy of whatever its parent had open
        os._exit(0)
    if then == "raise":
        raise RuntimeError("the program's own")
    if then == "wait":
        time.sleep(100)
