"""The script and its interpreter: found and checked before anything starts."""

from __future__ import annotations

import os
import sys

from flota.cli.parse import nearest
from flota.cli.settings import Request
from flota.errors import BadInterpreter, MissingProgram, MissingScript, NoScript, RefusedFlag, ScriptIsDirectory
from flota.job.spec import Command


def resolve_command(request: Request) -> Command:
    line, settings = request.line, request.settings
    if not line.script:
        raise NoScript
    python = choose_python(request)
    if settings["module"]:
        return Command("module", line.script, line.args, python)
    if settings["no_python"]:
        return Command("program", find_program(line.script, request.environ), line.args, python)
    if line.script == "run_check" and not os.path.exists(line.script):
        raise RefusedFlag("run_check", "flota has no built-in self-test of Paddle", "run a small script of your own")
    if os.path.isdir(line.script) and not settings["run_path"]:
        raise ScriptIsDirectory(line.script)
    if not os.path.exists(line.script):
        raise MissingScript(line.script, _nearest_file(line.script))
    as_python = line.script.endswith(".py") or settings["run_path"] or not os.access(line.script, os.X_OK)
    if as_python:
        return Command("script", line.script, line.args, python)
    return Command("program", line.script if os.path.dirname(line.script) else f"./{line.script}", line.args, python)


def choose_python(request: Request) -> str:
    """--python or PYTHON_EXEC, the one running `python -m flota`, the active environment's, flota's own."""
    wanted = request.settings["python"]
    if wanted:
        found = _search(wanted, request.environ)
        if not found:
            raise BadInterpreter(wanted)
        return found
    if request.interpreter:
        return request.interpreter
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        candidate = os.path.join(request.environ.get(variable) or "/nowhere", "bin", "python")
        if os.access(candidate, os.X_OK):
            return candidate
    return sys.executable


def find_program(program: str, environ: dict[str, str], hint: str = "") -> str:
    found = _search(program, environ)
    if not found:
        raise MissingProgram(program, hint)
    return found


def _search(program: str, environ: dict[str, str]) -> str | None:
    """Where it is, if it can be run: on PATH, unless it names a directory itself."""
    places = environ.get("PATH", os.defpath).split(os.pathsep)
    found = [program] if os.path.dirname(program) else [os.path.join(place or ".", program) for place in places]
    return next((path for path in found if os.access(path, os.X_OK) and not os.path.isdir(path)), None)


def _nearest_file(path: str) -> str:
    directory = os.path.dirname(path)
    try:
        names = os.listdir(directory or ".")
    except OSError:
        return ""
    near = nearest(os.path.basename(path), names)
    return os.path.join(directory, near) if near else ""
