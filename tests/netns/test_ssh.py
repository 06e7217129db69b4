"""Jobs over ssh, to real sshds on hosts of a lab. The launcher runs on host 4; each host has files of its own."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import flota
from tests.lab import Lab, kernel, missing
from tests.lab.sshd import Sshd, missing_ssh
from tests.launching import COMMAND, DEADLINE, environment, name_of, wait_until

GREETS = """
import os, socket
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "on", socket.gethostname(), os.environ.get("A"), os.environ.get("B"))
"""
FAILS = """
import os, sys
if os.environ["RANK"] == "2":
    print("rank 2 gives up", file=sys.stderr)
    sys.exit(7)
import time
time.sleep(600)
"""
WAITS = """
import os, pathlib, time
print("waiting", flush=True)
pathlib.Path(f"waits.{os.environ['RANK']}").touch()
time.sleep(600)
"""
PATIENCE = 60.0  # seconds for a whole job on a busy machine
LAUNCHER = 4


class Hosts:
    """Hosts 1 to 4, each with its own disk at one path."""

    def __init__(self, lab: Lab, sshd: Sshd, directory: Path) -> None:
        self.lab, self.sshd = lab, sshd
        self.work = directory / "work"
        self.work.mkdir()
        self.started: list[subprocess.Popen[str]] = []
        for host in lab.hosts:
            self.disk(host.number).mkdir(parents=True)
            host.call(kernel.mount, str(self.disk(host.number)), str(self.work), flags=kernel.BIND)

    def disk(self, number: int) -> Path:
        return self.work.with_name(f"disk{number}")

    def give(self, text: str, *numbers: int, name: str = "job.py") -> None:
        """Write a script to these disks, or to all."""
        for number in numbers or (1, 2, 3, LAUNCHER):
            (self.disk(number) / name).write_text(text)

    def start(self, *words: object, **env: str) -> subprocess.Popen[str]:
        argv = [COMMAND, "--ssh-options", f"-F {self.sshd.config}", *words]
        pipe = subprocess.PIPE
        options = {"stdout": pipe, "stderr": pipe, "text": True, "start_new_session": True}
        process = self.lab.host(LAUNCHER).popen(argv, cwd=self.work, env=environment(env), **options)
        self.started.append(process)
        return process

    def run(self, *words: object, **env: str) -> tuple[int, str, str]:
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    def wait_for(self, *paths: Path) -> None:
        for path in paths:
            wait_until(path.exists, str(path), PATIENCE)

    def wait_until_workers_wait(self, count: int = 3) -> None:
        self.wait_for(*(self.disk(rank + 1) / f"waits.{rank}" for rank in range(count)))

    def jobs_on(self, *numbers: int) -> list[int]:
        """Processes on these hosts that belong to a job."""
        pids = [pid for number in numbers for pid in self.lab.host(number).processes()]
        return [pid for pid in pids if not name_of(pid).startswith("sshd")]

    def wait_until_none_is_left(self, *numbers: int) -> None:
        wait_until(lambda: not self.jobs_on(*numbers), "all processes of the job to exit", DEADLINE)


@pytest.fixture(scope="module")
def lab_with_sshd(tmp_path_factory):
    reason = missing() or missing_ssh()
    if reason:
        pytest.skip(reason)
    with Lab(4) as lab:
        yield lab, Sshd(lab.hosts, tmp_path_factory.mktemp("ssh"))


@pytest.fixture
def hosts(lab_with_sshd, tmp_path):
    lab, sshd = lab_with_sshd
    made = Hosts(lab, sshd, tmp_path)
    yield made
    for process in made.started:
        process.kill()
    lab.heal()
    wait_until(lambda: not made.jobs_on(1, 2, 3), "the last job to end", DEADLINE)


def test_a_job_runs_on_three_hosts_and_shows_rank_0(hosts):
    hosts.give(GREETS)

    code, out, err = hosts.run("--hosts", "host[1-3]", "--forward", "A", "--env", "B=2", "job.py", A="1", C="3")

    assert (code, out) == (0, "rank 0 of 3 on host1 1 2\n"), err
    assert err.count("all 3 workers finished successfully") == 1
    assert "rank 2 of 3 on host3 1 2" in (hosts.disk(3) / "log" / "workerlog.2").read_text()
    assert not (hosts.disk(LAUNCHER) / "log").exists()


def test_ranks_of_all_hosts_are_shown_with_a_prefix(hosts):
    hosts.give(GREETS)

    code, out, err = hosts.run("--hosts", "host1:2,host2", "--nnodes", "2", "--console", "all", "job.py")

    assert code == 0, err
    assert sorted(line.partition("]")[0] for line in out.splitlines()) == ["[host1:0", "[host1:1", "[host2:2"]


def test_a_failed_rank_gives_its_exit_code_and_one_report(hosts):
    hosts.give(FAILS)

    code, _, err = hosts.run("--hosts", "host[1-3]", "job.py")

    assert code == 7, err
    assert err.count("rank 2 on host3 failed first: exit code 7") == 1
    assert err.count("ABORT!!!") == 1
    hosts.wait_until_none_is_left(1, 2, 3)


def test_all_problems_of_all_hosts_are_one_table_and_nothing_starts(hosts):
    hosts.give(GREETS, 1, LAUNCHER)
    hosts.give("print('another')\n", 3)

    code, out, err = hosts.run("--hosts", "host[1-3],nohost", "job.py")

    assert (code, out) == (2, "")
    assert "3 of 4 hosts cannot run the job; nothing was started" in err
    rows = [line.split(maxsplit=1) for line in err.splitlines() if line.startswith("  ")]
    assert rows[:2] == [
        ["host2", "cannot read job.py: No such file or directory"],
        ["host3", "job.py differs from the one here"],
    ]
    assert rows[2][0] == "nohost"
    assert rows[2][1].startswith("cannot connect: Could not resolve hostname nohost")
    assert not (hosts.disk(1) / "log").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--remote-python", "/no/python"), "no such interpreter: /no/python"),
        (("--chdir", "/no/directory"), "cannot enter /no/directory: No such file or directory"),
    ],
)
def test_a_wrong_interpreter_or_directory_is_named(hosts, words, problem):
    hosts.give(GREETS)

    code, _, err = hosts.run("--hosts", "host1", *words, "job.py")

    assert code == 2
    assert problem in err


OTHER_VERSION = """#!/bin/sh
echo 'flota-node {"version": "0.0.9"}'
cat
"""
OLDER = """#!/bin/sh
echo "$0: No module named 'flota.cli.remote_node'" >&2
exit 1
"""


@pytest.mark.parametrize(
    ("python", "problem"),
    [
        (f"{sys.base_prefix}/bin/python3", "/bin/python3 has no flota"),
        (OTHER_VERSION, f"/python has flota 0.0.9, and {flota.__version__} is used here"),
        (OLDER, "/python has another version of flota"),
    ],
    ids=["none", "other", "older"],
)
def test_a_host_with_another_flota_or_none_is_named(hosts, python, problem):
    hosts.give(GREETS)
    if python.startswith("#!"):
        hosts.give(python, name="python")
        (hosts.disk(2) / "python").chmod(0o755)
        python = f"{hosts.work}/python"

    code, out, err = hosts.run("--hosts", "host2", "--remote-python", python, "job.py")

    assert (code, out) == (2, "")
    assert "1 of 1 host cannot run the job; nothing was started" in err
    assert problem in err
    assert "hint: name an interpreter that has this version of flota with --remote_python" in err


def test_a_host_that_does_not_answer_is_given_up(hosts):
    hosts.give(GREETS)
    hosts.lab.cut(3)

    code, _, err = hosts.run(
        "--ssh-options", f"-F {hosts.sshd.config} -o ConnectTimeout=2", "--hosts", "host[1-3]", "job.py"
    )

    assert code == 2
    assert re.search("^  host3  cannot connect: .*timed out", err, re.MULTILINE), err
    assert not (hosts.disk(1) / "log").exists()


def test_connections_may_be_shared(hosts):
    hosts.give(GREETS)
    with tempfile.TemporaryDirectory(prefix="ssh-") as short:  # the path of a socket must be short
        shared = f"-F {hosts.sshd.config} -o ControlMaster=auto -o ControlPath={short}/%h -o ControlPersist=60"

        first = hosts.run("--ssh-options", shared, "--hosts", "host[1-2]", "job.py")
        sockets = sorted(path.name for path in Path(short).iterdir())
        second = hosts.run("--ssh-options", shared, "--hosts", "host[1-2]", "job.py")
        for name in sockets:
            hosts.lab.host(LAUNCHER).run(["ssh", *shlex.split(shared), "-O", "exit", name])

    assert sockets == ["host1", "host2"]
    assert [(code, out) for code, out, _ in (first, second)] == [(0, "rank 0 of 2 on host1 None None\n")] * 2


def test_a_node_that_cannot_start_stops_the_others(hosts):
    hosts.give(WAITS)
    (hosts.disk(2) / "log").write_text("not a directory")

    code, _, err = hosts.run("--hosts", "host[1-3]", "job.py")

    assert code == 2, err
    assert re.search("^host2: flota: error: .*log", err, re.MULTILINE)
    assert "stopping the job: host2 has ended" in err
    hosts.wait_until_none_is_left(1, 2, 3)


@pytest.mark.parametrize("count", [1, 3])
def test_a_killed_launcher_leaves_no_process_on_the_hosts(hosts, count):
    hosts.give(WAITS)
    launcher = hosts.start("--hosts", f"host[1-{count}]", "job.py")
    hosts.wait_until_workers_wait(count)

    launcher.kill()

    hosts.wait_until_none_is_left(1, 2, 3)


def test_ctrl_c_stops_the_job_on_all_hosts(hosts):
    hosts.give(WAITS)
    launcher = hosts.start("--hosts", "host[1-3]", "job.py")
    hosts.wait_until_workers_wait()

    launcher.send_signal(signal.SIGINT)

    _, err = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 130, err
    hosts.wait_until_none_is_left(1, 2, 3)


def test_a_host_that_is_cut_off_ends_the_job_here_and_there(hosts):
    hosts.give(WAITS)
    launcher = hosts.start("--hosts", "host[1-3]", "job.py")
    hosts.wait_until_workers_wait()

    hosts.lab.cut(3)

    _, err = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 75, err
    assert "host3 was lost" in err
    assert "lost the connection to host3" in err
    hosts.wait_until_none_is_left(1, 2, 3)


def test_a_host_that_waits_as_a_spare_replaces_one_that_is_cut_off(hosts):
    hosts.give(WAITS)
    launcher = hosts.start("--hosts", "host[1-3]", "--spares", "1", "job.py")
    places = {number: hosts.disk(number) / "waits.1" for number in (2, 3)}
    wait_until(lambda: any(path.exists() for path in places.values()), "rank 1 on one of two hosts", PATIENCE)
    [seated] = [number for number, path in places.items() if path.exists()]

    hosts.lab.cut(seated)

    hosts.wait_for(places[5 - seated])
    launcher.send_signal(signal.SIGINT)
    _, err = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 130, err
    assert f"host{seated} was lost; replaced by the spare host{5 - seated}" in err
    hosts.wait_until_none_is_left(1, 2, 3)


def test_a_launcher_that_is_cut_off_ends_the_job_on_the_hosts(hosts):
    hosts.give(WAITS)
    hosts.start("--hosts", "host[1-3]", "job.py")
    hosts.wait_until_workers_wait()

    hosts.lab.cut(LAUNCHER)

    hosts.wait_until_none_is_left(1, 2, 3)


def test_logs_of_all_hosts_are_fetched_also_after_a_failure(hosts):
    hosts.give(FAILS)

    code, _, err = hosts.run("--hosts", "host[1-3]", "--fetch-logs", "job.py")

    assert code == 7, err
    assert "rank 2 gives up" in (hosts.disk(LAUNCHER) / "log" / "host3" / "workerlog.2").read_text()
    assert (hosts.disk(LAUNCHER) / "log" / "host1" / "report.json").exists()


def test_the_directory_is_copied_first(hosts):
    if not shutil.which("rsync"):
        pytest.skip("--sync needs rsync: make test SYSTEM=1 installs it, as root")
    hosts.give(GREETS, LAUNCHER)
    hosts.give("data\n", LAUNCHER, name=".gitignore")
    hosts.give("large", LAUNCHER, name="data")

    code, out, err = hosts.run("--hosts", "host[1-2]", "--sync", "--chdir", f"{hosts.work}/new/place", "job.py")

    assert code == 0, err
    assert out == "rank 0 of 2 on host1 None None\n"
    copied = hosts.disk(2) / "new" / "place"
    assert (copied / "job.py").exists()
    assert not (copied / "data").exists()


def test_a_detached_job_runs_on_until_it_is_stopped(hosts):
    hosts.give(WAITS)

    code, out, err = hosts.run("--hosts", "host[1-3]", "--detach", "job.py")

    assert (code, out) == (0, ""), err
    hosts.wait_until_workers_wait()
    show, stop = (shlex.split(command) for command in re.findall("`(ssh .* -m flota .*)` s", err))
    shown = hosts.lab.host(LAUNCHER).run([word.replace(" -f", "") for word in show])
    assert shown.stdout.endswith("\nwaiting\n"), shown.stderr
    stopped = hosts.lab.host(LAUNCHER).run(stop)
    assert stopped.returncode == 0, stopped.stderr
    hosts.wait_until_none_is_left(1, 2, 3)
    assert "stopped by flota stop" in (hosts.disk(1) / "log" / "console.host1.log").read_text()


def test_the_token_is_on_no_command_line_and_in_no_environment_of_the_hosts(hosts):
    hosts.give(WAITS)
    hosts.start("--hosts", "host[1-3]", "job.py", FLOTA_TOKEN="very-secret-token")
    hosts.wait_until_workers_wait()

    pids = hosts.jobs_on(1, 2, 3)
    shown = b"".join(Path(f"/proc/{pid}/{file}").read_bytes() for pid in pids for file in ("cmdline", "environ"))
    clients = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in hosts.lab.host(LAUNCHER).processes()]

    assert b"job.py" in shown
    assert b"very-secret-token" not in shown + b"".join(clients)
