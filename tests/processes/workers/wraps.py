"""Runs a script in a process of its own, and waits for its end: `wraps.py calls|spawns SCRIPT ARGS…`."""

import multiprocessing
import os
import runpy
import subprocess
import sys

HOW, SCRIPT, *ARGS = sys.argv[1:]
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), SCRIPT)


def run():
    sys.argv = [PATH, *ARGS]
    runpy.run_path(PATH, run_name="__main__")


if __name__ == "__main__":
    if HOW == "calls":
        sys.exit(subprocess.call([sys.executable, PATH, *ARGS]))
    child = multiprocessing.get_context("spawn").Process(target=run)
    child.start()
    child.join()
