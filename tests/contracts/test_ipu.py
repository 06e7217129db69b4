"""What poprun gets, against what Paddle's launcher gave it in the same case (dumps/paddle_ipu_emulated.json)."""

from __future__ import annotations

import json

import pytest

from tests.contracts.test_dumps import DIFFERENT, DUMPS, without_ports
from tests.ipu import install_poprun

RECORDED = json.loads((DUMPS / "paddle_ipu_emulated.json").read_text())


@pytest.fixture
def given(flota):
    """poprun's words and variables, after the recorded command with flota in the launcher's place."""
    _, launcher, words = RECORDED["command"].partition("python -m paddle.distributed.launch ")
    assert launcher
    (flota.directory / "train.py").touch()
    result = flota.run(*words.split(), env=install_poprun(flota.directory))
    assert result.returncode == 0, result.stderr
    return json.loads((flota.directory / "poprun.json").read_text())


def test_popruns_command_line_is_that_of_paddles_launcher(flota, given):
    program, *words = given["argv"]
    python = words.index("-u")

    # On purpose different: python is unbuffered, and the script's path is a whole one.
    words[python - 1 : python + 2] = ["PYTHON", words[python + 1].removeprefix(f"{flota.directory}/")]

    assert program == f"{flota.directory}/sdk/poprun"
    assert " ".join(["poprun", *words]) == RECORDED["poprun_line"]


def test_poprun_gets_the_variables_of_paddles_launcher(flota, given):
    ours = {name: value.replace(str(flota.directory), "/JOB") for name, value in given["env"].items()}

    for name, value in RECORDED["poprun_env"].items():
        if name not in DIFFERENT:
            assert without_ports(ours.get(name, "(unset)")) == without_ports(value), name
