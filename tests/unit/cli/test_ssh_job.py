"""From the words of `flota --hosts` to a job and the options of ssh."""

from __future__ import annotations

import pytest

from flota.cli.main import main
from flota.cli.ssh_job import read_ssh_job
from flota.engines.ssh_hosts import SshHost
from flota.errors import BadValue, Contradiction, FlotaError, UnreadableFile
from flota.errors.hosts import EmptyHostfile


@pytest.fixture(autouse=True)
def _in_a_directory_with_a_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("pass\n")


def read(*words, environ=None):
    return read_ssh_job(list(words), environ or {})


def test_nodes_get_the_flags_of_the_job_and_none_of_ssh():
    job, options = read(
        *("--hosts", "a,b:8", "--grace", "5", "--sync", "--chdir", "/data", "--ssh-options", "-p 22 -o 'A b'"),
        *("--remote-python", "/bin/python", "--fetch-logs", "train.py", "--lr", "1"),
    )

    assert job.words == ("--grace", "5", "train.py", "--lr", "1")
    assert (job.least, job.most) == (2, 2)
    assert options["hosts"] == (SshHost("a"), SshHost("b", 8))
    assert options["ssh_options"] == ("-p", "22", "-o", "A b")
    assert options["sync"]
    assert options["fetch_logs"]
    assert len(options["digest"]) == 64


def test_groups_and_settings_of_the_file_are_used_and_not_sent(tmp_path):
    (tmp_path / "flota.toml").write_text('grace = "5s"\nforward = "A"\n[hosts]\nlab = "gpu[1-2]"\n')

    job, options = read("--hosts", "lab", "train.py", environ={"FLOTA_CHDIR": "/data", "A": "1"})

    assert [host.name for host in options["hosts"]] == ["gpu1", "gpu2"]
    assert options["chdir"] == "/data"
    assert job.words == ("--grace=5.0", "train.py")


def test_a_hostfile_names_the_hosts(tmp_path):
    (tmp_path / "hosts").write_text("a slots=2\nb slots=2\n")

    _, options = read("--hostfile", "hosts", "train.py")

    assert options["hosts"] == (SshHost("a", 2), SshHost("b", 2))


def test_the_number_of_nodes_may_vary_up_to_the_number_of_hosts():
    job, _ = read("--hosts", "a,b,c", "--nnodes", "2:3", "train.py")

    assert (job.least, job.most) == (2, 3)


def test_counts_of_hosts_win_over_those_of_variables():
    job, _ = read("--hosts", "a:8", "train.py", environ={"PADDLE_NPROC_PER_NODE": "2"})

    assert job.words == ("train.py",)


def test_only_named_variables_are_passed_on():
    _, options = read("--hosts", "a", "--forward", "A,B", "train.py", environ={"A": "1", "B": "2", "C": "3"})

    assert options["forward"] == {"A": "1", "B": "2"}


def test_lines_of_several_ranks_have_a_prefix():
    job, options = read("--hosts", "a,b", "--console", "all", "train.py")

    assert job.words[0] == "--log-line-prefix-template=[${hostname}:${rank}] "
    assert options["by_line"]


@pytest.mark.parametrize(
    "words",
    [
        ("--hosts", "a,b", "--nnodes", "3"),
        ("--hosts", "a:8", "--nproc_per_node", "4"),
        ("--hosts", "a", "--hostfile", "train.py"),
        ("--hosts", "a", "--master", "10.0.0.1:8090"),
        ("--hosts", "a", "--interactive"),
        ("--hosts", "a", "--detach", "--fetch-logs"),
    ],
)
def test_contradictions_are_found_before_anything_starts(words):
    with pytest.raises(Contradiction):
        read(*words, "train.py")


def test_other_bad_input_is_one_line(tmp_path):
    (tmp_path / "empty").write_text("# nothing\n")

    with pytest.raises(EmptyHostfile):
        read("--hostfile", "empty", "train.py")
    with pytest.raises(UnreadableFile, match="hostfile"):
        read("--hostfile", "missing", "train.py")
    with pytest.raises(UnreadableFile, match=r"other\.py"):
        read("--hosts", "a", "--sync", "other.py")
    with pytest.raises(BadValue, match="NO_SUCH"):
        read("--hosts", "a", "--forward", "NO_SUCH", "train.py")
    with pytest.raises(BadValue, match="quotation"):
        read("--hosts", "a", "--ssh-options", "'", "train.py")


def test_a_missing_ssh_is_named(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")

    assert main(["--hosts", "a", "train.py"]) == 2

    assert "`ssh` is not on PATH" in capsys.readouterr().err


def test_the_plan_is_printed_without_ssh(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")

    assert main(["--hosts", "a,b", "--dry-run", "train.py"]) == 0

    assert capsys.readouterr().out.count("-m flota.cli.remote_node") == 2


def test_hosts_are_named_on_the_command_line_only(tmp_path, capsys):
    (tmp_path / "flota.toml").write_text('hosts = "gpu01"\n')

    assert main(["train.py"]) == 2

    assert "`hosts` is not a table of groups; name hosts with --hosts" in capsys.readouterr().err


def test_spares_are_hosts_beyond_the_nodes():
    job, _ = read("--hosts", "a,b,c", "--spares", "1", "train.py")
    assert (job.least, job.most, job.started, job.words) == (2, 2, 3, ("--spares", "1", "train.py"))
    job, _ = read("--hosts", "a,b,c", "--nnodes", "1:2", "train.py", environ={"FLOTA_SPARES": "1"})
    assert (job.least, job.most, job.started, job.words) == (1, 2, 3, ("--spares=1", "train.py"))
    for words in (("--nnodes", "3", "--spares", "1"), ("--spares", "3"), ("--evict-stragglers", "2x")):
        with pytest.raises(FlotaError) as raised:
            read("--hosts", "a,b,c", *words, "train.py")
        assert raised.value.exit_code == 2
