"""flota logs: the output of any ranks of a running or finished job."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

from flota.control.client import NodeClient, local_nodes
from flota.logs.log_parts import parts_of, read_part
from tests.launching import COMMAND, environment, wait_until

HEADER = "===== flota: "


class Stage:
    """Workers that print what they are asked to."""

    def __init__(self, flota):
        self.flota = flota
        self.directory = flota.directory

    def say(self, *lines, rank=None):
        with open(self.directory / ("say" if rank is None else f"say.{rank}"), "a") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def start(self, *words, **options):
        running = self.flota.start(*words, "speaks_on_cue.py", **options)
        self.wait_for("attempt 0")
        wait_until(lambda: running.pid in local_nodes(), "the job to answer")
        return running

    def follow(self, *words, **options):
        """Follow into a file, from the first line on."""
        with open(self.directory / "followed", "wb") as out:
            running = self.flota.start("logs", "-f", *words, stdout=out, **options)
        wait_until(lambda: HEADER in self.followed(), "the first line")
        return running

    def followed(self):
        return (self.directory / "followed").read_text()

    def wait_for(self, text, directory="log", rank=0):
        path = self.directory / directory / f"workerlog.{rank}"
        wait_until(lambda: path.exists() and f"{text}\n".encode() in path.read_bytes(), f"{text} in {path}")

    def logs(self, *words, **options):
        return self.flota.run("logs", *words, **options)

    def shown(self, *words, **options):
        """What workers have printed."""
        result = self.logs(*words, **options)
        assert (result.returncode, result.stderr) == (0, "")
        return without_headers(result.stdout)


def without_headers(text):
    return [line for line in text.splitlines() if HEADER not in line]


def errors_of(running):
    return running.process.stderr.read().decode()


@pytest.fixture
def stage(flota):
    return Stage(flota)


@pytest.fixture
def host():
    return os.uname().nodename


# A running job.


def test_rank_0_of_the_running_job_is_shown_byte_for_byte(stage):
    stage.start("--nproc_per_node", 2)
    stage.say("\x1b[1mhello\x1b[0m from RANK", "10%\r20%")
    stage.wait_for("10%\r20%")

    result = subprocess.run([COMMAND, "logs"], cwd=stage.directory, env=environment(), capture_output=True, check=True)

    assert result.stdout == (stage.directory / "log" / "workerlog.0").read_bytes()
    assert result.stdout.startswith(HEADER.encode())


def test_chosen_ranks_have_the_prefixes_of_the_console(stage, host):
    stage.start("--nproc_per_node", 4)
    stage.say("hello from RANK")
    for rank in range(4):
        stage.wait_for(f"hello from {rank}", rank=rank)

    assert sorted(stage.shown("--rank", "1,2-3", "--grep", "hello")) == [
        f"[{host}:{rank}] hello from {rank}" for rank in (1, 2, 3)
    ]
    assert stage.shown("--rank", 2, "--grep", "hello") == ["hello from 2"]
    assert len(stage.shown("--node", host)) == len(stage.shown("--all")) == 8


def test_only_the_last_job_is_shown(stage):
    stage.say("first", "end")
    stage.flota.run("speaks_on_cue.py")
    (stage.directory / "say").unlink()
    stage.start()
    stage.say("second")
    stage.wait_for("second")

    assert stage.shown() == ["attempt 0", "second"]

    stage.say("end")
    stage.flota.started[1].wait()

    assert stage.shown() == ["attempt 0", "second"]


def test_following_shows_restarts_and_ends_with_the_job(stage):
    job = stage.start("--max_restart", 1)
    follower = stage.follow()
    stage.say("before", "fail in attempt 0", "after", "end")

    assert (job.wait(), follower.wait(), errors_of(follower)) == (0, 0, "")
    out = stage.followed()
    assert without_headers(out) == ["attempt 0", "before", "attempt 1", "before", "fail in attempt 0", "after"]
    assert len(re.findall(HEADER, out)) == 2


def test_following_through_rotations_loses_no_line(stage):
    job = stage.start("--log_max_size", 2048, "--log_backups", 50)
    follower = stage.follow()
    lines = [f"line {number}" for number in range(3000)]
    for at in range(0, len(lines), 500):
        stage.say(*lines[at : at + 500])
        wait_until(lambda line=lines[at]: any_log_has(stage, line), "the next lines")
    stage.say("end")

    assert (job.wait(), follower.wait(), errors_of(follower)) == (0, 0, "")
    out = stage.followed()
    assert without_headers(out) == ["attempt 0", *lines]
    assert stage.shown() == ["attempt 0", *lines]


def any_log_has(stage, line):
    path = str(stage.directory / "log" / "workerlog.0")
    return any(f"{line}\n".encode() in read_part(path, part.inode, 0) for part in parts_of(path))


def test_following_ends_when_flota_itself_is_killed(stage):
    job = stage.start()
    stage.say("last")
    stage.wait_for("last")
    follower = stage.follow()

    os.kill(job.pid, signal.SIGKILL)

    assert (follower.wait(), errors_of(follower)) == (0, "")
    assert without_headers(stage.followed()) == ["attempt 0", "last"]


def test_ctrl_c_ends_following_without_a_traceback(stage):
    stage.start()
    follower = stage.follow()

    os.kill(follower.pid, signal.SIGINT)

    assert (follower.wait(), errors_of(follower)) == (130, "")


def test_a_closed_pipe_ends_following_without_a_traceback(stage):
    stage.start()
    follower = stage.flota.start("logs", "-f")
    follower.process.stdout.read(1)
    follower.process.stdout.close()

    stage.say("more")

    assert follower.wait() == 1
    assert follower.process.stderr.read() == b""


def test_a_reader_that_stalls_does_not_make_the_follower_grow(stage):
    stage.start("--nproc_per_node", 2)
    follower = stage.flota.start("logs", "-f", "--all")
    follower.process.stdout.readline()
    before = resident(follower.pid)
    stage.say(*["x" * 1000] * 60_000)
    wait_until(lambda: (stage.directory / "log" / "workerlog.1").stat().st_size > 50 << 20, "a long log", timeout=60)
    wait_until(lambda: state_of(follower.pid) == "S", "a full pipe")

    assert resident(follower.pid) - before < 40 << 20


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def state_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_a_job_of_another_directory_is_found_by_its_id(stage, tmp_path):
    job = stage.start("--job_id", "mine")
    (tmp_path / "elsewhere").mkdir()

    found = stage.logs("--job", job.pid, cwd=tmp_path / "elsewhere")

    assert without_headers(found.stdout) == ["attempt 0"]


# Several nodes.


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def two_nodes(stage, *words, token="secret", nodes="2"):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    env = {"FLOTA_TOKEN": token} if token else {}
    started = []
    for number in range(2):
        where = ("--nnodes", nodes, "--master", f"127.0.0.1:{port}", "--log_dir", f"log{number}", "--rank", number)
        started.append(stage.flota.start(*where, *words, "speaks_on_cue.py", env=env))
        wait_until(lambda: listens(port), "the first node to serve the master")
    for number in range(2):
        stage.wait_for("attempt 0", f"log{number}", number)
    wait_until(lambda: {node.pid for node in started} <= set(local_nodes()), "both nodes to answer")
    return started


def test_ranks_of_other_nodes_are_shown_through_the_network(stage, host):
    nodes = two_nodes(stage)
    stage.say("hello from RANK")
    stage.wait_for("hello from 0", "log0", 0)
    stage.wait_for("hello from 1", "log1", 1)

    for node in nodes:
        assert sorted(stage.shown("--job", node.pid, "--rank", "0-1", "--grep", "hello")) == [
            f"[{host}:0] hello from 0",
            f"[{host}:1] hello from 1",
        ]
    assert stage.shown("--node", 1)[-1] == "hello from 1"


def test_a_job_is_shown_from_outside_with_its_token_only(stage):
    first, _ = two_nodes(stage)
    client = NodeClient(first.pid)
    endpoint = client.status().job.nodes[0].endpoint.removeprefix("http://")
    client.close()

    assert stage.shown("--at", endpoint, "--rank", 1, env={"FLOTA_TOKEN": "secret"}) == ["attempt 0"]
    refused = stage.logs("--at", endpoint, env={"FLOTA_TOKEN": "wrong"})
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "the request does not have the job's token" in refused.stderr


def test_following_shows_all_nodes_to_their_ends(stage, host):
    nodes = two_nodes(stage)
    follower = stage.follow("--all")
    stage.say(*(f"line {number} of RANK" for number in range(500)), "last of RANK", "end")

    assert ([node.wait() for node in nodes], follower.wait(), errors_of(follower)) == ([0, 0], 0, "")
    for rank in range(2):
        own = [line for line in without_headers(stage.followed()) if line.startswith(f"[{host}:{rank}]")]
        assert own[1:] == [f"[{host}:{rank}] line {number} of {rank}" for number in range(500)] + [
            f"[{host}:{rank}] last of {rank}"
        ]


def test_a_node_that_goes_away_is_named_and_the_others_go_on(stage, host):
    first, second = two_nodes(stage, "--elastic_timeout", 1, nodes="1:2")
    follower = stage.follow("--all", "--job", first.pid)
    wait_until(lambda: f"[{host}:1] attempt" in stage.followed(), "both nodes")
    rounds = stage.followed().count(f"[{host}:0] attempt")

    os.kill(second.pid, signal.SIGKILL)

    warning = follower.process.stderr.readline().decode()
    assert re.fullmatch(rf"flota: warning: {host}: .*; continuing without it\n", warning), warning
    wait_until(lambda: stage.followed().count(f"[{host}:0] attempt") > rounds, "the next round of the other node")
    stage.say("still here")
    wait_until(lambda: f"[{host}:0] still here" in stage.followed(), "its output")
    first.process.send_signal(signal.SIGINT)
    assert follower.wait() == 0


def test_without_a_token_other_nodes_are_named(stage):
    first, _ = two_nodes(stage, token="")

    result = stage.logs("--job", first.pid, "--all")
    missing = stage.logs("--job", first.pid, "--rank", 1)

    assert (result.returncode, without_headers(result.stdout)) == (0, ["attempt 0"])
    assert "set FLOTA_TOKEN on all nodes" in result.stderr
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "it takes no requests from other machines" in missing.stderr


# A finished job.


def test_a_finished_job_is_merged_by_time(stage, host):
    """The ranks speak in turns, and flota notes each of them."""
    job = stage.start("--nproc_per_node", 2)
    turns = [(0, "one"), (1, "two"), (0, "three")]
    for rank, line in turns:
        stage.say(line, rank=rank)
        wait_until(lambda rank=rank, line=line: noted(stage, rank, line), f"{line} to be noted")
        time.sleep(1.1)  # two moments must not be the same one
    stage.say("end", rank=0)
    stage.say("end", rank=1)
    job.wait()

    lines = stage.shown("--all")

    assert [line for line in lines if "attempt" not in line] == [f"[{host}:{rank}] {line}" for rank, line in turns]
    said = [json.loads(line) for line in stage.shown("--all", "--json", "--grep", "^(one|two|three)")]
    assert [(one["rank"], one["line"]) for one in said] == turns
    assert [one["time"] for one in said] == sorted(one["time"] for one in said)


def noted(stage, rank, line):
    text = (stage.directory / "log" / f"workerlog.{rank}").read_text()
    path = next((stage.directory / "log").glob("times.*.jsonl"), None)
    sizes = [json.loads(one).get("sizes", {}) for one in path.read_text().splitlines()] if path else []
    return f"{line}\n" in text and any(one.get(f"workerlog.{rank}", [0, 0])[1] >= len(text) for one in sizes)


def test_a_job_without_records_is_shown_by_rank(stage, host):
    """As one of less than a second."""
    stage.say("hello from RANK", "end")
    stage.flota.run("--nproc_per_node", 2, "speaks_on_cue.py")
    for path in (stage.directory / "log").glob("times.*"):
        path.unlink()

    assert stage.shown("--all") == [
        f"[{host}:{rank}] {line}" for rank in range(2) for line in ("attempt 0", f"hello from {rank}")
    ]


def test_identical_lines_are_folded_on_request(stage):
    stage.say("loss nan", "end")
    stage.flota.run("--nproc_per_node", 3, "speaks_on_cue.py")

    assert stage.shown("--all", "--fold") == ["[ranks 0-2 x3] attempt 0", "[ranks 0-2 x3] loss nan"]


def test_directories_of_several_nodes_are_read_together(stage, host):
    nodes = two_nodes(stage)
    stage.say("hello from RANK", "end")
    assert [node.wait() for node in nodes] == [0, 0]
    for number in range(2):
        shutil.copytree(stage.directory / f"log{number}", stage.directory / "all" / str(number))

    assert sorted(stage.shown("--log_dir", "all", "--all", "--grep", "hello")) == [
        f"[{host}:{rank}] hello from {rank}" for rank in range(2)
    ]
    assert stage.shown("--log_dir", "log1") == ["attempt 0", "hello from 1"]


def test_roles_have_logs_of_their_own(stage, host):
    stage.flota.run("--server_num", 1, "--trainer_num", 1, "prints.py", env={"LINES_TO_PRINT": "1", "RANK": "x"})

    shown = stage.logs("--role", "server").stdout

    assert "server 0 of 1" in shown
    assert f"[{host}:server 0]" in stage.logs("--all").stdout


def test_separate_streams_are_both_shown(stage):
    stage.say("hello", "end")
    stage.flota.run("--redirects", 3, "speaks_on_cue.py")

    assert stage.shown() == ["attempt 0", "hello"]


def test_logs_without_events_are_shown(stage):
    stage.say("hello", "end")
    stage.flota.run("speaks_on_cue.py")
    for path in (stage.directory / "log").iterdir():
        if not path.name.startswith("workerlog"):
            path.unlink()

    assert stage.shown("--log_dir", "log") == ["attempt 0", "hello"]


# Bad input.


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rank", "x"], "invalid value `x` for --rank: expected ranks"),
        (["--rank", "7-5"], "invalid value `7-5` for --rank: expected ranks"),
        (["--rank", "0-99999999"], "invalid value `0-99999999` for --rank: expected ranks"),
        (["--rank", "9"], "the job has no rank 9; it has rank 0"),
        (["--role", "server"], "the job has no role `server`; its roles: trainer"),
        (["--node", "gpu99"], "the job has no node `gpu99`; its nodes: 0 ("),
        (["--since", "5x"], "invalid value `5x` for --since: expected a duration"),
        (["--grep", "("], "invalid value `(` for --grep: expected a regular expression"),
        (["--log_dir", "nowhere"], "there are no logs of a job in `nowhere`"),
        (["--job", "nobody"], "no "),  # other jobs may run on this machine
        (["--at", "here"], "cannot ask here: expected HOST:PORT"),
        (["--tail", "5"], "unknown flag `--tail`"),
        (["log"], "unexpected argument `log`"),
    ],
)
def test_bad_input_is_one_line_and_a_hint(stage, words, message):
    stage.say("end")
    stage.flota.run("speaks_on_cue.py")

    result = stage.logs(*words)

    assert (result.returncode, result.stdout) == (2, "")
    first, *rest = result.stderr.splitlines()
    assert first.startswith(f"flota: error: {message}")
    assert len(rest) == 2 and rest[1].startswith("hint: ")


def test_an_interactive_job_has_no_logs(stage):
    job = stage.flota.start("--interactive", "speaks_on_cue.py")
    wait_until(lambda: job.pid in local_nodes(), "the job to answer")

    result = stage.logs()

    assert result.returncode == 2
    assert "with --interactive, its output is on its terminal only" in result.stderr
