"""`flota submit`: what is wrong is one line, and nothing is started."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("words", [("slrum", "train.py"), (), ("train.py",)])
def test_an_unknown_engine_is_named_with_those_that_exist(flota, words):
    result = flota.run("submit", *words)

    assert result.returncode == 2
    named = f"unknown engine `{words[0]}`" if words else "flota submit needs an engine"
    assert result.stderr.splitlines()[0] == f"flota: error: {named}: expected one of slurm, kubernetes, ray"


@pytest.mark.parametrize(
    ("words", "tool"),
    [
        (("submit", "slurm"), "sbatch"),
        (("submit", "kubernetes", "--image", "python:3.12"), "kubectl"),
        (("--srun",), "srun"),
        (("--hosts", "gpu01"), "ssh"),
        (("--hosts", "gpu01", "--sync"), "ssh"),
    ],
    ids=" ".join,
)
def test_a_tool_that_is_not_installed_is_named(flota, words, tool):
    (flota.directory / "train.py").write_text("")
    shell = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"} if tool == "srun" else {}

    result = flota.run(*words, "train.py", env={"PATH": str(flota.directory), **shell})

    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == f"flota: error: `{tool}` is not on PATH"
    assert "hint: " in result.stderr
    assert not (flota.directory / "log").exists()


def test_ray_that_is_not_installed_is_one_line(flota):
    result = flota.run("submit", "ray", "train.py")

    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == "flota: error: Ray is not installed"
