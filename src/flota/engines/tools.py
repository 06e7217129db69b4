"""Runs the programs that belong to an engine, such as sbatch and kubectl."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping

from flota.errors.engines import MissingTool, ToolFailed

LONGEST_ANSWER = 60.0  # seconds; a controller that is down answers late, or never


def say(text: str) -> None:
    sys.stderr.write(f"flota: {text}\n")
    sys.stderr.flush()


def find_tool(name: str, hint: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise MissingTool(name, hint)
    return path


def run_tool(argv: list[str], *, env: Mapping[str, str] | None = None, text: str = "") -> str:
    """Run a program to its end and return its output. Raises ToolFailed with the program's own words.

    `env`: its environment, if not this process's; secrets are in it, never among arguments. `text`: its standard input.
    """
    try:
        result = subprocess.run(
            argv,
            env=env,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST_ANSWER,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolFailed(argv[0], f"no answer within {LONGEST_ANSWER:g} s") from None
    except OSError as error:
        raise ToolFailed(argv[0], error.strerror or str(error)) from None
    if result.returncode:
        raise ToolFailed(argv[0], last_line(result.stderr) or f"exit code {result.returncode}")
    return result.stdout


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
