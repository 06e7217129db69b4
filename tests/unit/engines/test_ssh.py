"""The commands that start a job over ssh."""

from __future__ import annotations

from flota.engines.ssh import ALIVE, TIMEOUT, plan
from flota.engines.ssh_hosts import SshHost
from tests.unit.engines.test_slurm import JOB

OPTIONS = {
    "hosts": (SshHost("gpu01", 8), SshHost("me@gpu02")),
    "ssh_options": ("-p", "2222"),
    "defaults": (*ALIVE, TIMEOUT),
    "remote_python": "/opt/my env/bin/python",
    "chdir": "",
    "digest": "",
    "forward": {"WANDB_API_KEY": "secret-key"},
    "sync": False,
    "detach": False,
    "fetch_logs": False,
    "by_line": False,
}
TWO = JOB._replace(least=2, most=2, words=("--grace", "5", "train.py", "--name", "it's"))


def make(job=TWO, **chosen):
    return plan(job, {**OPTIONS, **chosen})


def test_no_shell_comes_between_ssh_and_flota():
    command = make().node_command(SshHost("gpu01"))

    assert command[:3] == ["ssh", "-p", "2222"]  # before flota's own options: ssh takes the first value
    assert command[-2:] == ["gpu01", "exec '/opt/my env/bin/python' -m flota.cli.remote_node"]


def test_nodes_are_numbered_in_the_order_of_the_hosts():
    planned = make()

    assert planned.node_words(0, "10.0.0.1:4000") == [
        *("--nnodes=2", "--rank=0", "--master=10.0.0.1:4000", "--nproc_per_node=8"),
        *("--grace", "5", "train.py", "--name", "it's"),
    ]
    assert planned.node_words(1, "10.0.0.1:4000")[:4] == ["--nnodes=2", "--rank=1", "--master=10.0.0.1:4000", "--grace"]


def test_a_job_on_one_host_needs_no_master():
    planned = make(JOB._replace(least=1, most=1, words=("train.py",)), hosts=(SshHost("gpu01"),))

    assert planned.node_words(0, "") == ["--nnodes=1", "train.py"]


def test_the_directory_is_copied_without_logs_and_what_git_ignores():
    command = make(sync=True, chdir="/data/my job").sync_command(SshHost("fd00::1"))

    assert {"--filter=:- .gitignore", "--exclude=/.git", "--exclude=/log"} <= set(command)
    assert command[-2:] == ["/home/alice/my work/", "[fd00::1]:/data/my job/"]
    assert "mkdir -p '/data/my job' && rsync" in command


def test_the_directory_on_the_hosts_may_be_relative_to_this_one():
    assert make(chdir="sub").directory == "/home/alice/my work/sub"
    assert make(chdir="/data").log_dir == "/data/log"
    assert make(JOB._replace(log_dir="runs/{job_id}/{time}")).log_dir == "/home/alice/my work/runs"


def test_the_plan_has_one_command_per_host_and_no_secret():
    text = make(sync=True).text

    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# gpu01: node 0",
        "#   flota --nnodes=2 --rank=0 '--master=gpu01:<free>' --nproc_per_node=8 --grace 5 train.py --name 'it'\"'\"'s'",
        "# gpu02: node 1",
        "#   flota --nnodes=2 --rank=1 '--master=gpu01:<free>' --grace 5 train.py --name 'it'\"'\"'s'",
    ]
    assert text.count("rsync -as") == text.count("\nssh -p 2222") == 2
    for shown in (text, repr(make())):
        assert "secret-token" not in shown
        assert "secret-key" not in shown


def test_the_last_hosts_may_be_spares():
    planned = make(TWO._replace(least=1, most=1, spares=1))

    assert planned.node_words(1, "10.0.0.1:4000")[:3] == ["--nnodes=1", "--rank=1", "--master=10.0.0.1:4000"]
