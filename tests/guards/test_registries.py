"""A framework, a platform, an engine, a kind of device or a subcommand is one file and one row: all else reads the registry."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from flota import devices, engines, frameworks, platforms
from flota.cli import commands
from flota.cli.flags import ALIASES, FLAGS
from flota.cli.ipu import IPU_FLAGS
from flota.worker.parallel import KNOWN
from tests.launching import WORKERS, environment

ROOT = Path(__file__).parents[2]
LAUNCHERS = {"paddle launch", "fleetrun", "torch launch", "torchrun", "flota"}

FRAMEWORK = """
from flota.frameworks import Framework

def variables(spec, roster, worker):
    return {"DUMMY_RANK": f"dummy {worker.rank}"}  # the number of a dummy

FRAMEWORK = Framework("Dummy", variables, shown=("DUMMY_RANK",), short="du")
"""
PLATFORM = """
from flota.platforms import Hints

def detect(environ):
    return Hints("DUMMY_NODES", 2, 1, "DUMMY_RANK", f"{environ['DUMMY_HOST']}:8090")
"""
SUBCOMMAND = """
def main(words):
    print("dummy", *words)
    return 3
"""
ENGINE = """
from flota.engines import Option

OPTIONS = (Option("colour", "text", "the colour of the nodes", "NAME", "red"),)

class Plan:
    def __init__(self, text):
        self.text = text

def observe(job, options):
    return options

def plan(job, options):
    return Plan(f"{job.most} {options['colour']} nodes run {job.target}\\n")

def start(planned, environ):
    print("started:", planned.text, end="")
    return planned

def follow(running):
    return 3
"""
# The rows, as an author would write them, and the folders of the files; then any command of flota.
REGISTER = """
import sys
import flota.cli.commands as commands, flota.devices as devices, flota.frameworks as frameworks, flota.platforms as platforms
import flota.engines as engines
for package in (commands, engines, frameworks, platforms):
    package.__path__.append(f"{sys.argv[1]}/{package.__name__}")
frameworks.REGISTRY += ("dummy",)
platforms.REGISTRY += (platforms.Platform("dummy", "DummyCloud", ("DUMMY_NODES", "DUMMY_HOST")),)
commands.REGISTRY += (commands.Subcommand("dummy", "[WORD]", "does nothing of use"),)
devices.KINDS += (devices.Kind("dummy_device", ("DUMMY_VISIBLE_DEVICES",), "dummy", "Dummies"),)
engines.REGISTRY += (engines.Row("dummy", "a cluster of dummies"),)
sys.path.insert(0, sys.argv[2])
"""


@pytest.fixture
def registered(tmp_path):
    """Runs Python with one more of each kind."""
    files = {"flota.frameworks": FRAMEWORK, "flota.platforms": PLATFORM, "flota.cli.commands": SUBCOMMAND}
    files["flota.engines"] = ENGINE
    for package, text in files.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "dummy.py").write_text(text)

    def run(code: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", f"{REGISTER}{code}", str(tmp_path), str(ROOT / "docs"), *words]
        env = {**environment(), **variables}
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=env)

    return run


@pytest.fixture
def flota(registered):
    return lambda *words, **variables: registered(
        "from flota.cli.main import main\nsys.exit(main(sys.argv[3:]))", *words, **variables
    )


SCRIPT = str(WORKERS / "dumps_env.py")


def test_a_new_framework_is_given_by_default_and_by_each_of_its_names(flota):
    for words in ((), ("--framework", "dummy"), ("--framework", "torch,du")):
        plan = json.loads(flota(*words, "--dry-run", "--json", SCRIPT).stdout)

        assert plan["workers"][0]["env"]["DUMMY_RANK"] == "dummy 0"


def test_a_new_framework_is_in_help_errors_and_completion(flota):
    assert "TensorFlow and Dummy" in flota("--help").stdout
    assert "tensorflow, dummy" in " ".join(flota("--help", "script").stdout.split())
    assert "tensorflow, dummy" in flota("--framework", "other", SCRIPT).stderr
    assert "tensorflow dummy" in flota("completion", "bash").stdout


def test_a_new_platform_is_asked_where_its_marks_are_set(flota):
    marks = {"DUMMY_NODES": "2", "DUMMY_HOST": "10.0.0.1"}

    assert "2 nodes join at 10.0.0.1:8090" in flota("--dry-run", SCRIPT, **marks).stdout
    assert "nodes meet" not in flota("--dry-run", SCRIPT, DUMMY_NODES="2").stdout
    assert "PBS and DummyCloud" in " ".join(flota("--help", "nodes").stdout.split())


def test_a_new_engine_takes_jobs_and_its_options_are_in_its_help(flota):
    words = ("submit", "dummy", "--nodes", "2", "--colour", "blue")

    assert flota(*words, "--dry_run", "train.py").stdout == "2 blue nodes run train.py\n"
    assert flota(*words, "train.py").returncode == 0
    followed = flota(*words, "--follow", "train.py")
    assert (followed.returncode, followed.stdout) == (3, "started: 2 blue nodes run train.py\n")
    assert "  dummy                   a cluster of dummies" in flota("submit", "--help").stdout
    assert "--colour NAME" in flota("submit", "dummy", "--help").stdout
    assert "kubernetes, ray, dummy" in flota("submit", "other", "train.py").stderr


def test_a_new_subcommand_is_run_and_is_in_help_and_completion(flota):
    ran = flota("dummy", "--word")

    assert (ran.returncode, ran.stdout) == (3, "dummy --word\n")
    assert "  flota dummy [WORD]                    does nothing of use" in flota("--help").stdout
    for shell in ("bash", "zsh", "fish"):
        assert "dummy" in flota("completion", shell).stdout


def test_a_new_kind_of_device_is_found(flota):
    plan = json.loads(flota("--dry-run", "--json", SCRIPT, DUMMY_VISIBLE_DEVICES="3,4").stdout)

    assert [worker["devices"] for worker in plan["workers"]] == [["3"], ["4"]]


def test_all_of_them_are_in_the_reference(registered):
    code = """
import make_reference
for name in ("flags", "variables"):
    page = (make_reference.DOCS / "reference" / f"{name}.md").read_text()
    print(make_reference.DOCUMENTS[f"reference/{name}.md"](page))
"""

    pages = registered(code).stdout.splitlines()

    assert "## Dummy" in pages
    assert "| `DUMMY_RANK` | `dummy 1` | the number of a dummy |" in pages
    assert "| DummyCloud | `DUMMY_NODES`, `DUMMY_HOST` |" in pages
    assert "| `dummy [WORD]` | does nothing of use |" in pages
    assert "| dummy_device | `DUMMY_VISIBLE_DEVICES` | Dummies |" in pages


def test_every_row_has_its_file():
    assert all(frameworks.load(name) for name in frameworks.REGISTRY)
    assert all(import_module(f"flota.platforms.{platform.name}").detect for platform in platforms.REGISTRY)
    assert all(commands.find_subcommand(command.name) for command in commands.REGISTRY)
    for row in engines.REGISTRY:
        assert all(hasattr(engines.load(row.name), name) for name in ("OPTIONS", "observe", "plan", "start", "follow"))


def test_scripts_can_initialise_every_framework():
    assert frameworks.REGISTRY == KNOWN  # worker/ runs in other interpreters, and imports nothing of frameworks/


def test_every_flag_says_which_launchers_have_it():
    for row in (*FLAGS, *ALIASES, *IPU_FLAGS):
        assert set(row.origin.split(", ")) <= LAUNCHERS, row.name


def test_kinds_of_one_name_have_variables_of_their_own():
    variables = [name for kind in devices.KINDS for name in kind.variables]

    assert len(set(variables)) == len(variables)


def test_no_module_imports_a_registered_file_by_its_name():
    source = ROOT / "src" / "flota"
    for folder in ("frameworks", "platforms", "cli/commands"):
        package = f"flota.{folder.replace('/', '.')}"
        for path in source.rglob("*.py"):
            if path.parent != source / folder:
                text = path.read_text()
                assert f"from {package}." not in text, path
                assert f"import {package}." not in text, path
    # Other files of an engine are for those who need them: the messages of ssh, the steps of Slurm.
    names = "|".join(row.name for row in engines.REGISTRY)
    for path in source.rglob("*.py"):
        if path.parent != source / "engines":
            assert not re.search(
                rf"flota\.engines\.({names})\b|flota\.engines import .*\b({names})\b", path.read_text()
            ), path
