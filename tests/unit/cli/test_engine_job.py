"""What an engine gets: the job's words without those that the engine decides, and the engine's own options."""

from __future__ import annotations

import pytest

from flota.cli.engine_job import NOT_COMMON, engine_rows, make_engine_job
from flota.cli.parse import parse
from flota.engines import COMMON, Option
from flota.errors import BadConfigFile, BadToken, Contradiction, NoScript, UnknownKey
from flota.errors.engines import ChosenByEngine

OPTIONS = (
    *COMMON,
    Option("partition", "text", "the partition", "NAME"),
    Option("gpus", "count", "devices per node", "N"),
    Option("label", "env", "labels", "K=V", ()),
)


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make(*words, environ=None):
    line = parse(list(words), engine_rows(OPTIONS), NOT_COMMON)
    return make_engine_job(line, "slurm", OPTIONS, environ or {})


def test_flags_of_the_job_go_to_the_nodes_and_options_to_the_engine():
    job, options = make(
        *("--nodes", "4", "--partition", "long", "--nproc_per_node", "8", "--dry_run", "train.py", "--lr", "0.1")
    )

    assert job.words == ("--nproc_per_node", "8", "train.py", "--lr", "0.1")
    assert (job.least, job.most) == (4, 4)
    assert options["partition"] == "long"


def test_an_option_of_the_engine_wins_over_an_alias_of_a_flag():
    job, options = make("--gpus", "8", "train.py")

    assert options["gpus"] == 8
    assert job.words == ("train.py",)


def test_settings_of_variables_and_files_become_flags(tmp_path):
    (tmp_path / "flota.toml").write_text('max_restart = 2\nenv = ["A=1", "B=2"]\n')

    job, _ = make("train.py", environ={"FLOTA_LOG_DIR": "out"})

    assert job.words == ("--max_restart=2", "--env=A=1", "--env=B=2", "--log_dir=out", "train.py")


def test_options_of_the_file_are_overridden_by_those_of_the_command_line(tmp_path):
    (tmp_path / "flota.toml").write_text('[submit.slurm]\nnodes = 2\npartition = "short"\nlabel = {team = "a"}\n')

    job, options = make("--partition", "long", "train.py")

    assert job.most == 2
    assert options["partition"] == "long"
    assert options["label"] == (("team", "a"),)


def test_a_key_that_the_engine_does_not_know_is_an_error(tmp_path):
    (tmp_path / "flota.toml").write_text("[submit.slurm]\npartitoin = 'x'\n")

    with pytest.raises(UnknownKey, match="partitoin"):
        make("train.py")


@pytest.mark.parametrize("text", ["submit = 1\n", "[submit]\nslurm = 1\n", "[roles.eval]\nworkers = 1\n"])
def test_a_file_that_cannot_be_used_is_an_error(tmp_path, text):
    (tmp_path / "flota.toml").write_text(text)

    with pytest.raises(BadConfigFile):
        make("train.py")


@pytest.mark.parametrize("flag", ["--master=a:1", "--rank=0", "--rdzv-endpoint=a:1"])
def test_what_the_engine_chooses_cannot_be_given(flag):
    with pytest.raises(ChosenByEngine, match="slurm chooses it"):
        make(flag, "train.py")


def test_counts_of_nodes_may_agree_but_not_differ():
    assert make("--nnodes", "2", "--nodes", "2", "train.py")[0].most == 2
    with pytest.raises(Contradiction):
        make("--nnodes", "2", "--nodes", "3", "train.py")


def test_a_range_of_nodes_is_elastic():
    job, _ = make("--nodes", "2:4", "train.py")

    assert (job.elastic, job.nodes) == (True, "2:4")


def test_every_job_has_a_token_of_its_own_unless_one_is_given():
    assert make("train.py", environ={"FLOTA_TOKEN": "mine"})[0].token == "mine"
    assert make("train.py")[0].token != make("train.py")[0].token
    with pytest.raises(BadToken):
        make("train.py", environ={"FLOTA_TOKEN": "with space"})


def test_a_token_is_not_shown():
    assert "mine" not in repr(make("train.py", environ={"FLOTA_TOKEN": "mine"})[0])


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("a/train.py",), "train"),
        (("--job_id", "exp1", "train.py"), "exp1"),
        (("-m", "pkg.train"), "train"),
        (("--no_python", "./run"), "run"),
    ],
)
def test_the_name_is_the_job_id_or_the_script(words, name):
    assert make(*words)[0].name == name


def test_a_script_is_required():
    with pytest.raises(NoScript):
        make("--nodes", "2")
