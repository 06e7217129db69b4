"""flota and Paddle in one environment: both install a command `fleetrun`, and the later one has it."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import pytest

from . import environments
from .conftest import Ended, Peer, results, run, script
from .environments import ROOT

pytestmark = pytest.mark.real

FLOTAS, PADDLES = ["RESULT launcher=flota rank=0"], ["RESULT launcher=paddle rank=0"]


class Environment:
    """A fresh environment. It borrows what Paddle needs, so that Paddle itself is all there is to install."""

    def __init__(self, paddle: Peer, directory: Path) -> None:
        self.paddle = paddle
        self.directory = directory
        self.bin = directory / "bin"
        environments.run([str(paddle.bin / "python"), "-m", "venv", "--without-pip", str(directory)])
        (site_packages(directory) / "borrowed.pth").write_text(str(lend(paddle, directory / "borrowed")))

    def install(self, wheel: Path, *words: str) -> None:
        pip = [str(self.paddle.bin / "pip"), "--python", str(self.bin / "python")]
        environments.run([*pip, "install", "--no-index", "--no-deps", "--no-compile", *words, str(wheel)])

    def run(self, program: str, *words: str) -> Ended:
        ended = run([str(self.bin / program), *words, script("which_launcher.py")], self.directory)
        assert ended.code == 0, ended.err
        return ended


def lend(paddle: Peer, directory: Path) -> Path:
    """Links to Paddle's dependencies, without what tells pip that they are installed."""
    directory.mkdir()
    for entry in site_packages(paddle.bin.parent).iterdir():
        if entry.suffix not in (".dist-info", ".pth") and entry.name != "paddle":
            (directory / entry.name).symlink_to(entry)
    return directory


def site_packages(environment: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))


@pytest.fixture(scope="module")
def paddle(tmp_path_factory):
    return Peer("paddle", tmp_path_factory.mktemp("paddle"))


@pytest.fixture(scope="module")
def paddle_wheel(paddle):
    [wheel] = (paddle.bin.parent / "wheels").glob("paddlepaddle-*.whl")
    return wheel


@pytest.fixture(scope="module")
def flota_wheel(paddle):
    """Built from a copy: setuptools would leave a build directory in the repository."""
    source = paddle.directory / "flota"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "LICENSE", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    offline = ("--no-index", "--no-deps", "--no-build-isolation")
    environments.pip(paddle.bin.parent, "wheel", *offline, "--wheel-dir", str(paddle.directory), str(source))
    [wheel] = paddle.directory.glob("flota-*.whl")
    return wheel


@pytest.fixture
def environment(paddle, tmp_path):
    yield Environment(paddle, tmp_path / "environment")
    # pytest keeps the directories of its last runs, and Paddle is big.
    shutil.rmtree(tmp_path / "environment")


def test_fleetrun_is_flotas_when_flota_was_installed_last(environment, paddle_wheel, flota_wheel):
    environment.install(paddle_wheel)
    environment.install(flota_wheel)

    ours = environment.run("fleetrun")
    theirs = environment.run("python", "-m", "paddle.distributed.launch", "--log_dir", "theirs")

    assert results(ours.out) == FLOTAS
    assert results(theirs.out) == PADDLES


def test_fleetrun_is_paddles_when_paddle_was_installed_last(environment, paddle_wheel, flota_wheel):
    environment.install(flota_wheel)
    environment.install(paddle_wheel)

    assert results(environment.run("fleetrun", "--log_dir", "theirs").out) == PADDLES
    assert results(environment.run("flota").out) == FLOTAS
    assert results(environment.run("python", "-m", "flota").out) == FLOTAS

    environment.install(flota_wheel, "--force-reinstall")
    assert results(environment.run("fleetrun").out) == FLOTAS
