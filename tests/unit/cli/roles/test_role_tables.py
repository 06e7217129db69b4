"""Roles of the user's own: tables of flota.toml, counts of --roles, and everything that is wrong with them."""

from __future__ import annotations

from shlex import split

import pytest

from flota.cli.build_spec import make_spec
from flota.cli.parse import parse
from flota.cli.settings import Request, gather
from flota.errors import (
    BadConfigFile,
    BadValue,
    Contradiction,
    MissingScript,
    NoScript,
    NoWorkersHere,
    RolesCollide,
    UnknownDevice,
    UnknownKey,
    UnusedScript,
)
from flota.job.roles import COLLECTIVE, END, IGNORE, MIXED, PS, RESTART
from flota.job.spec import JobSpec


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """What a flota.toml, a command line and an environment ask for, in a directory with two scripts."""
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "serve.py"):
        (tmp_path / name).touch()

    def make(toml: str = "", words: str = "train.py", file: str = "flota.toml", **environ: str) -> JobSpec:
        (tmp_path / file).write_text(toml)
        line = parse(split(words))
        environ = {"CUDA_VISIBLE_DEVICES": "", **environ}
        return make_spec(Request(line, gather(line.given, environ, str(tmp_path)), environ, "python"))

    return make


def counts(spec: JobSpec) -> str:
    return " ".join(f"{role.name}={role.workers}" for role in spec.roles)


FULL = """
[roles.trainer]
count = 2
script = "train.py"
args = ["--lr", 0.1, "--fast", true, "--epochs", 3]
devices = "1"
env = { A = "a", N = 3, B = false }
serves = false
on_failure = "end"

[roles.cache]
serves = true
on_failure = "ignore"
script = "serve.py"
"""


def test_every_key_of_a_table(spec):
    made = spec(FULL, words="", CUDA_VISIBLE_DEVICES="0,1")

    cache, trainer = made.roles
    assert made.mode == MIXED
    assert made.workers == 3
    assert (trainer.name, trainer.workers, trainer.serves, trainer.on_failure) == ("trainer", 2, False, END)
    assert trainer.command.target == "train.py"
    assert trainer.command.args == ("--lr", "0.1", "--fast", "true", "--epochs", "3")
    assert trainer.devices.chosen == ("1",)
    assert trainer.env == (("A", "a"), ("N", "3"), ("B", "false"))
    assert (cache.name, cache.workers, cache.serves, cache.on_failure) == ("cache", 1, True, IGNORE)
    assert (cache.command.target, cache.command.args) == ("serve.py", ())


def test_every_default_of_a_table(spec):
    (role,) = spec("[roles.trainer]", words="train.py --own").roles

    assert (role.workers, role.serves, role.on_failure, role.command, role.env) == (1, False, RESTART, None, ())


def test_a_role_may_have_nobody_here_or_very_many(spec):
    assert counts(spec("[roles.a]\ncount = 0\n[roles.b]\ncount = 10000")) == "a=0 b=10000"
    assert counts(spec("", "--roles a=0,b=10000 train.py")) == "a=0 b=10000"


def test_who_serves_by_its_name(spec):
    names = ("evaluator", "server", "scheduler", "worker", "ps", "coordinator", "chief")
    made = spec("".join(f"[roles.{name}]\n" for name in names))

    assert [role.name for role in made.roles if role.serves] == ["server", "scheduler", "ps", "coordinator"]
    assert [role.name for role in made.roles if not role.serves] == ["evaluator", "worker", "chief"]
    assert made.roles[made.main].name == "evaluator"


def test_a_table_says_whether_a_server_serves(spec):
    assert [role.serves for role in spec("[roles.server]\nserves = false").roles] == [False]


@pytest.mark.parametrize(
    ("toml", "problem", "error"),
    [
        ("count = true", "`roles.a.count` is `True`, not a number", BadConfigFile),
        ("count = 1.5", "`roles.a.count` is `1.5`, not a number", BadConfigFile),
        ("count = '2'", "`roles.a.count` is `2`, not a number", BadConfigFile),
        ("count = -1", "roles.a.count needs a number of 0 to 10000: `-1`", BadValue),
        ("count = 10001", "roles.a.count needs a number of 0 to 10000: `10001`", BadValue),
        ("script = 3", "`roles.a.script` is `3`, not a path", BadConfigFile),
        ("args = 'a b'", "`roles.a.args` is `a b`, not a list of words", BadConfigFile),
        ("args = [['a']]", "`roles.a.args` has ", BadConfigFile),
        ('args = ["a\\u0000b"]', "`roles.a.args` has ", BadConfigFile),
        ("devices = 0", "`roles.a.devices` is `0`, not ids in quotes", BadConfigFile),
        ("devices = '7'", "unknown device `7`", UnknownDevice),
        ("env = ['A=1']", "`roles.a.env` is ", BadConfigFile),
        ("env = { A = [1] }", "`roles.a.env.A` has ", BadConfigFile),
        ("env = { A = { B = 1 } }", "`roles.a.env.A` has ", BadConfigFile),
        ('env = { A = "a\\u0000b" }', "`roles.a.env.A` has ", BadConfigFile),
        ('env = { "A=B" = "c" }', "which is no name of a variable", BadConfigFile),
        ('env = { "" = "c" }', "which is no name of a variable", BadConfigFile),
        ('env = { "A\\u0000" = "c" }', "which is no name of a variable", BadConfigFile),
        ("serves = 1", "`roles.a.serves` is `1`, not true or false", BadConfigFile),
        ("serves = 'yes'", "`roles.a.serves` is `yes`, not true or false", BadConfigFile),
        ("on_failure = 1", "`roles.a.on_failure` is `1`, not one of restart, end, ignore", BadConfigFile),
        ("on_failure = 'die'", "`roles.a.on_failure` is `die`, not one of restart, end, ignore", BadConfigFile),
        ("cuont = 1", "unknown key `roles.a.cuont` in flota.toml", UnknownKey),
        ("nproc_per_node = 1", "unknown key `roles.a.nproc_per_node`", UnknownKey),
    ],
)
def test_a_wrong_table_is_refused_by_key_and_value(spec, toml, problem, error):
    with pytest.raises(error) as raised:
        spec(f"[roles.a]\n{toml}")

    assert problem in raised.value.message
    assert raised.value.exit_code == 2


def test_a_wrong_key_is_answered_with_the_nearest(spec):
    with pytest.raises(UnknownKey) as raised:
        spec("[roles.a]\nonfailure = 'end'")

    assert raised.value.hint == "did you mean `on_failure`?"


@pytest.mark.parametrize(
    ("toml", "words", "error", "problem"),
    [
        ("roles = 'a=2'", "train.py", BadConfigFile, "`roles` is not a table of tables"),
        ("[roles]\na = 2", "train.py", BadConfigFile, "`roles.a` is not a table"),
        ("[roles.'a/b']", "train.py", BadValue, "a name of letters and digits: `a/b`"),
        ("", "--roles ../x=1 train.py", BadValue, "a name of letters and digits: `../x`"),
        ("", "--roles 'é=1' train.py", BadValue, "a name of letters and digits: `é`"),
        ("", "--roles a=1,a=2 train.py", BadValue, "--roles needs each role once"),
        ("", "--roles a=10001 train.py", BadValue, "a count of 0 to 10000"),
        ("", "--roles a train.py", BadValue, "roles and their counts: `a`"),
        ("", "--roles a=-1 train.py", BadValue, "roles and their counts: `a=-1`"),
        ("", "--roles =1 train.py", BadValue, "roles and their counts: `=1`"),
        ("", "--roles a=0,b=0 train.py", NoWorkersHere, "no worker of any role"),
        ("[roles.trainer]\n[roles.worker]", "train.py", RolesCollide, "would write the same workerlog.N"),
        ("[roles.a-b]\n[roles.A_b]", "train.py", RolesCollide, "would share the variable FLOTA_ENDPOINTS_A_B"),
        ("[roles.a]", "--nproc_per_node 2 train.py", Contradiction, "--nproc_per_node and `roles` in flota.toml"),
        ("", "--roles a=1 --nproc_per_node 2 train.py", Contradiction, "--nproc_per_node and --roles"),
        ("", "--roles a=1,b=1 --interactive train.py", Contradiction, "--interactive and --roles"),
        ("[roles.a]", "--server_num 1 train.py", Contradiction, "`roles` in flota.toml and --server_num"),
        ("[roles.a]\nscript = 'nope.py'", "", MissingScript, "nope.py"),
        ("[roles.a]\nscript = 'serve.py'", "train.py", UnusedScript, "`train.py` would not be run: every role in "),
        ("[roles.a]\nscript = 'serve.py'\n[roles.b]", "", NoScript, "no script given"),
        ("[roles.a]\nscript = 'serve.py'\n[roles.b]\nargs = ['x']", "", NoScript, "no script given"),
    ],
)
def test_what_makes_no_job_is_refused(spec, toml, words, error, problem):
    with pytest.raises(error) as raised:
        spec(toml, words)

    assert problem in raised.value.message


def test_counts_of_the_command_line_come_before_the_tables(spec):
    made = spec("[roles.trainer]\ncount = 2\n[roles.evaluator]", "--roles trainer=3,data=2 train.py")

    assert counts(made) == "trainer=3 evaluator=1 data=2"
    assert counts(spec("[roles.trainer]\ncount = 2", FLOTA_ROLES="trainer=1")) == "trainer=1"
    assert counts(spec("[roles.trainer]\n[roles.evaluator]", "--roles trainer=0 train.py")) == "trainer=0 evaluator=1"


def test_the_mode_on_the_command_line_counts_more_than_the_file(spec):
    made = spec("[roles.a]", "--run_mode collective --nproc_per_node 2 train.py")
    assert (made.mode, made.roles, made.workers) == (COLLECTIVE, (), 2)

    made = spec("[roles.a]", "--run_mode ps train.py")
    assert (made.mode, counts(made)) == (PS, "server=1 trainer=1")


def test_tables_in_pyproject(spec, tmp_path):
    made = spec("[tool.flota.roles.trainer]\ncount = 2\n[tool.flota.roles.server]", file="pyproject.toml")

    assert counts(made) == "server=1 trainer=2"


def test_a_role_has_the_jobs_script_with_arguments_of_its_own(spec):
    made = spec("[roles.trainer]\n[roles.data]\nargs = ['--data']", "train.py --lr")

    assert made.command.args == ("--lr",)
    assert made.roles[0].command is None
    assert (made.roles[1].command.target, made.roles[1].command.args) == ("train.py", ("--data",))


def test_devices_of_roles(spec):
    toml = """
    [roles.server]
    [roles.trainer]
    [roles.evaluator]
    [roles.data]
    devices = "all"
    [roles.cache]
    devices = "none"
    [roles.one]
    devices = "3"
    """
    made = spec(toml, "--devices 1,2 train.py", CUDA_VISIBLE_DEVICES="0,1,2,3")

    assert {role.name: role.devices.chosen for role in made.roles} == {
        "server": (),
        "trainer": ("1", "2"),  # the first that serves nobody has the job's
        "evaluator": (),
        "data": ("1", "2"),
        "cache": (),
        "one": ("3",),
    }
    assert not any(role.private for role in made.roles)
