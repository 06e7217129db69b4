"""Jobs with roles on one machine: who starts and ends when, what a death means, and what is said of it."""

from __future__ import annotations

import json
import os
import signal
import socket

import pytest

from tests.launching import WORKERS, assert_nobody_left, wait_until, worker_output

PLAYS = "plays.py"


def report(flota):
    return json.loads((flota.directory / "log" / "report.json").read_text())


def events(flota, *names):
    """What is there so far: the file comes after the workers."""
    paths = (flota.directory / "log").glob("events.*.jsonl")
    found = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    return [event for event in found if event["event"] in names]


def note(flota, worker, kind="came", number=0):
    """What a worker has noted, as `server.0`."""
    return json.loads((flota.directory / f"{kind}.{number}.{worker}").read_text())


def has_note(flota, worker, kind="came", number=0):
    return (flota.directory / f"{kind}.{number}.{worker}").exists()


def wait_for_notes(flota, *workers, kind="came", number=0):
    for worker in workers:
        wait_until(lambda worker=worker: has_note(flota, worker, kind, number), f"{kind} of {worker} in round {number}")


def tell_to_end(flota, worker, how):
    """Whole, or not there: the worker is looking for it."""
    (flota.directory / "told").write_text(how)
    (flota.directory / "told").rename(flota.directory / f"fail.{worker}")


def play(words, **more):
    return {"PLAY": words, **more}


@pytest.fixture
def free_ports():
    """Ports that are free now."""

    def find(count):
        probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        ports = [probe.getsockname()[1] for probe in probes]
        for probe in probes:
            probe.close()
        return ports

    return find


@pytest.fixture
def taken_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


# A job that ends well.


def test_servers_start_first_answer_all_trainers_and_are_stopped_after_the_work(flota):
    counts = ["--server_num", 2, "--trainer_num", 2, "--coordinator_num", 1, "--heter_worker_num", "1;2"]

    result = flota.run(*counts, "--grace", "0.5", PLAYS, env=play("trainer=end"))

    assert result.returncode == 0
    served = [("server", 0), ("server", 1), ("coordinator", 0), ("heter", 0), ("heter", 1), ("heter", 2)]
    started = [(event.get("role", "trainer"), event["rank"]) for event in events(flota, "worker_started")]
    assert started == [*served, ("trainer", 0), ("trainer", 1)]
    assert [event["round"] for event in events(flota, "round_started")] == [0]
    logs = {path.name for path in (flota.directory / "log").glob("*log.?")}
    assert logs == {"workerlog.0", "workerlog.1", *(f"{role}log.{rank}" for role, rank in served)}
    assert worker_output(flota.directory / "log" / "heterlog.2") == "heter 2 is here\n"
    assert result.stdout == "trainer 0 is here\n"

    told = {worker: note(flota, worker) for worker in ("server.0", "server.1", "trainer.0", "trainer.1")}
    assert len({one["PADDLE_GLOO_HTTP_ENDPOINT"] for one in told.values()}) == 1
    lists = {(one["FLOTA_ENDPOINTS_SERVER"], one["FLOTA_ENDPOINTS_TRAINER"]) for one in told.values()}
    servers, trainers = (text.split(",") for text in lists.pop())
    assert not lists
    assert [told[worker]["FLOTA_ENDPOINT"] for worker in told] == [*servers, *trainers]
    assert [note(flota, f"trainer.{rank}", "answered")["answers"] for rank in (0, 1)] == [["server 0", "server 1"]] * 2
    listed = (flota.directory / "log" / "endpoints.log").read_text().splitlines()
    assert listed[:3] == ["PADDLE_TRAINER_ENDPOINTS:", *trainers]
    assert listed[3:6] == ["PADDLE_PSERVERS_IP_PORT_LIST:", *servers]

    assert "2 servers, 1 coordinator, 3 heter workers, 2 trainers on " in result.stderr
    assert "all other workers finished; " in result.stderr
    assert "2 servers, 1 coordinator, 3 heter workers, 2 trainers finished successfully" in result.stderr
    assert (report(flota)["verdict"], report(flota)["failures"]) == ("succeeded", [])
    assert report(flota)["stopped_by_flota"] == [f"{role} {rank}" for role, rank in served]
    assert has_note(flota, "server.0", "stopped")
    ends = {(event.get("role"), event["rank"]): event["monotonic"] for event in events(flota, "worker_exited")}
    assert ends["server", 0] - max(ends[None, 0], ends[None, 1]) >= 0.5


def test_trainers_share_devices_in_turn_with_one_warning(flota):
    more = play("trainer.2=3 trainer=end", FAIL_UNTIL="0", CUDA_VISIBLE_DEVICES="4,6")

    result = flota.run("--server_num", 1, "--trainer_num", 3, "--max_restart", 1, "--grace", "0.1", PLAYS, env=more)

    assert result.returncode == 0
    assert [note(flota, f"trainer.{rank}", number=1)["device"] for rank in range(3)] == ["4", "6", "4"]
    assert note(flota, "trainer.1", number=1)["CUDA_VISIBLE_DEVICES"] == "6"
    assert note(flota, "server.0", number=1)["CUDA_VISIBLE_DEVICES"] == ""
    assert result.stderr.count("3 workers share 2 devices") == 1


def test_a_server_that_exits_after_the_work_is_not_waited_for_and_no_failure(flota):
    result = flota.run("--run_mode", "ps", "--grace", 600, PLAYS, env=play("trainer=end server=outlive.5"))

    assert result.returncode == 0
    assert (
        "all other workers finished; waiting 1 s for 1 server to exit, then stopping them (up to 600 s)"
        in result.stderr
    )
    assert "server 0 failed: exit code 5; ignored: all others had finished; log: " in result.stderr
    assert (report(flota)["failures"], report(flota)["stopped_by_flota"]) == ([], [])


def test_a_server_that_does_not_exit_after_the_work_is_stopped_without_waiting_for_the_grace_period(flota):
    result = flota.run("--run_mode", "ps", "--grace", 600, PLAYS, env=play("trainer=end"))

    assert result.returncode == 0
    assert has_note(flota, "server.0", "stopped")
    assert report(flota)["stopped_by_flota"] == ["server 0"]


def test_a_job_of_servers_alone_ends_when_they_do(flota):
    words = ["--server_num", 2, "--trainer_num", 0, "--grace", "0.1"]
    running = flota.start(*words, PLAYS, env=play("server=work"))
    wait_for_notes(flota, "server.0", "server.1")

    (flota.directory / "finish").touch()

    out, err = running.output()
    assert running.process.returncode == 0
    assert out == "server 0 is here\n"
    assert "all other workers finished" not in err
    assert "2 servers finished successfully" in err
    assert report(flota)["stopped_by_flota"] == []


@pytest.mark.parametrize("victim", ["node", "shepherd"])
def test_a_signal_after_the_work_is_not_a_failure(flota, victim):
    running = flota.start("--run_mode", "ps", "--grace", 5, PLAYS, env=play("trainer=end server=stay"))
    log = flota.directory / "log"
    wait_until(
        lambda: any("all other workers finished" in path.read_text() for path in log.glob("default.*.log")), "the word"
    )

    if victim == "node":
        os.kill(running.pid, signal.SIGTERM)
    else:
        os.kill(running.shepherd(), signal.SIGKILL)

    assert running.wait() == 0
    assert report(flota)["verdict"] == "succeeded"
    assert_nobody_left()


# What cannot start.


@pytest.mark.parametrize(
    ("flag", "environ"),
    [("--servers", {}), ("--trainers", {}), ("--gloo_port", {}), ("--servers", {"PADDLE_START_PORT": "40000"})],
)
def test_a_port_in_use_is_named_with_its_owner_and_nothing_starts(flota, free_ports, taken_port, flag, environ):
    server, trainer, gloo = free_ports(3)
    ports = {"--servers": server, "--trainers": trainer, "--gloo_port": gloo, flag: taken_port}
    lists = ["--servers", f"127.0.0.1:{ports['--servers']}", "--trainers", f"127.0.0.1:{ports['--trainers']}"]

    result = flota.run(*lists, "--with_gloo", 1, "--gloo_port", ports["--gloo_port"], PLAYS, env=environ)

    assert result.returncode == 2
    said = f"flota: error: port {taken_port} is in use by pid {os.getpid()}, "
    assert [line.startswith(said) for line in result.stderr.split("\n\n")[:-1]] == [True]
    assert not list(flota.directory.glob("came.*"))


@pytest.mark.parametrize(("gloo", "code"), [(1, 2), (0, 0)])
def test_a_gloo_port_in_use_matters_only_where_gloo_is_on(flota, taken_port, gloo, code):
    words = ("--server_num", 1, "--trainer_num", 1, "--gloo_port", taken_port, "--grace", "0.1")

    result = flota.run(*words, "--with_gloo", gloo, PLAYS, env=play("trainer=end"))

    assert result.returncode == code
    assert (f"port {taken_port} is in use by pid {os.getpid()}, " in result.stderr) is bool(gloo)


# Failures.


@pytest.mark.parametrize(
    ("culprit", "how", "code", "ending"),
    [("server 1", "3", 3, "exit code 3"), ("rank 1", "SIGKILL", 137, "SIGKILL (killed")],
)
def test_a_worker_of_any_role_that_dies_fails_the_job(flota, culprit, how, code, ending):
    role = "server" if culprit.startswith("server") else "trainer"

    result = flota.run("--server_num", 2, "--trainer_num", 2, PLAYS, env=play(f"{role}.1={how}"))

    assert result.returncode == code
    log = flota.directory / "log" / f"{'server' if role == 'server' else 'worker'}log.1"
    lines = result.stderr.splitlines()
    aborted = f"ABORT!!! Out of all 2 {role}s, the {role} process with rank=[1] was aborted. Please check its log."
    begin = lines.index(aborted)
    assert lines[begin + 1].startswith(f"{culprit} failed first: {ending}")
    assert {f"  {role} 1 was told to fail", f"log: {log}"} <= set(lines[begin:])
    assert lines[-1] == f"stopped by flota: {'server 0; ranks 0-1' if role == 'server' else 'servers 0-1; rank 0'}"
    failure = report(flota)["failures"][0]
    assert (failure["role"], failure["rank"], failure["log"]) == (role, 1, str(log))
    assert failure["said"] == [f"{role} 1 is here", f"{role} 1 was told to fail"]
    others = ["server 0", 0, 1] if role == "server" else ["server 0", "server 1", 0]
    assert report(flota)["stopped_by_flota"] == others


def test_a_restart_starts_all_roles_in_order_with_fresh_ports(flota):
    words = ["--server_num", 1, "--trainer_num", 2, "--max_restart", 1, "--grace", "0.1"]
    running = flota.start(*words, PLAYS, env=play("trainer=work"))
    wait_for_notes(flota, "trainer.0", "trainer.1", kind="answered")

    tell_to_end(flota, "server.0", "6")

    wait_for_notes(flota, "trainer.0", "trainer.1", kind="answered", number=1)
    (flota.directory / "finish").touch()
    _, err = running.output()
    assert running.process.returncode == 0
    assert "server 0 failed: exit code 6" in err
    assert "restarting (1 of 1)" in err
    assert [event["round"] for event in events(flota, "round_started")] == [0, 1]
    started = [(event.get("role"), event["rank"]) for event in events(flota, "worker_started")]
    assert started == [("server", 0), (None, 0), (None, 1)] * 2
    first, second = (
        {note(flota, "server.0", number=number)[f"FLOTA_ENDPOINTS_{role}"] for role in ("SERVER", "TRAINER")}
        for number in (0, 1)
    )
    assert not set(",".join(first).split(",")) & set(",".join(second).split(","))
    assert report(flota)["attempt"] == 1


@pytest.mark.parametrize("end", ["trainers", "trainer fails", "server", "node", "shepherd", "SIGTERM", "SIGINT"])
def test_nothing_is_left_of_deaf_servers_and_their_children(flota, end):
    running = flota.start("--run_mode", "ps", "--grace", "0.2", PLAYS, env=play("server=deaf"))
    wait_for_notes(flota, "server.0", kind="parent")
    wait_for_notes(flota, "trainer.0")

    if end.startswith("trainer"):
        tell_to_end(flota, "trainer.0", "0" if end == "trainers" else "5")
    elif end == "server":
        os.kill(note(flota, "server.0")["pid"], signal.SIGKILL)
    else:
        victim = running.shepherd() if end == "shepherd" else running.pid
        os.kill(victim, getattr(signal, end) if end.startswith("SIG") else signal.SIGKILL)

    codes = {
        "trainers": 0,
        "trainer fails": 5,
        "server": 137,
        "node": -9,
        "shepherd": 137,
        "SIGTERM": 143,
        "SIGINT": 130,
    }
    assert running.wait() == codes[end]
    assert_nobody_left()
    assert has_note(flota, "trainer.0", "stopped") or end in ("trainers", "trainer fails", "node", "shepherd")


# What is shown.


def test_a_dry_run_shows_the_roles(flota):
    words = ["--server_num", 1, "--trainer_num", 2, "--dry-run"]

    table = flota.run(*words, PLAYS).stdout
    plan = json.loads(flota.run(*words, "--json", PLAYS).stdout)

    rows = [line.split() for line in table.splitlines()]
    log = f"{flota.directory}/log"
    assert ["worker", "devices", "log", "command"] in rows
    assert [row[:4] for row in rows if row[2:3] == ["cpu"]] == [
        ["server", "0", "cpu", f"{log}/serverlog.0"],
        ["rank", "0", "cpu", f"{log}/workerlog.0"],
        ["rank", "1", "cpu", f"{log}/workerlog.1"],
    ]
    assert "variables of server 0" in table
    planned = [(worker["role"], worker["rank"]) for worker in plan["workers"]]
    assert planned == [("server", 0), ("trainer", 0), ("trainer", 1)]
    assert plan["workers"][0]["env"]["TRAINING_ROLE"] == "PSERVER"
    assert not (flota.directory / "log").exists()


def test_all_on_the_console_have_their_roles_before_their_lines(flota):
    counts = ["--server_num", 1, "--trainer_num", 2, "--grace", "0.1"]

    result = flota.run(*counts, "--console", "all", PLAYS, env=play("trainer=end"))

    host = os.uname().nodename
    assert set(result.stdout.splitlines()) == {
        f"[{host}:server 0] server 0 is here",
        f"[{host}:0] trainer 0 is here",
        f"[{host}:1] trainer 1 is here",
    }


# Roles of the user's own.


def write_config(flota, text):
    (flota.directory / "flota.toml").write_text(text.replace("PLAYS", str(WORKERS / PLAYS)))


def test_each_role_may_have_its_own_script_arguments_and_variables(flota):
    write_config(
        flota,
        """
        grace = "0.1"
        [roles.ps]
        [roles.chief]
        args = ["--as", "chief ${rank}"]
        env = {PLAY = "chief=end"}
        [roles.worker]
        count = 2
        script = "other.py"
        """,
    )
    (flota.directory / "other.py").write_text("import os\nopen('other.' + os.environ['RANK'], 'w')")

    result = flota.run(PLAYS, "the", "jobs")

    assert result.returncode == 0, result.stderr
    assert result.stdout == "chief 0 is here\n"
    assert (note(flota, "ps.0")["argv"], note(flota, "chief.0")["argv"]) == (["the", "jobs"], ["--as", "chief 0"])
    task = json.loads(note(flota, "chief.0")["TF_CONFIG"])
    assert task["task"] == {"type": "chief", "index": 0}
    assert task["cluster"]["ps"] == [note(flota, "ps.0")["FLOTA_ENDPOINT"]]
    assert sorted(path.name for path in flota.directory.glob("other.?")) == ["other.0", "other.1"]
    logs = {path.name for path in (flota.directory / "log").glob("*log.?")}
    assert logs == {"pslog.0", "chieflog.0", "workerlog.0", "workerlog.1"}
    assert report(flota)["roles"] == {"ps": 1, "chief": 1, "worker": 2}
    assert report(flota)["stopped_by_flota"] == ["ps 0"]


def test_an_ignored_failure_is_reported_and_the_job_continues(flota):
    write_config(flota, "[roles.trainer]\ncount = 2\n[roles.evaluator]\non_failure = 'ignore'")
    running = flota.start(PLAYS, env=play("evaluator=9"))
    wait_until(lambda: events(flota, "worker_exited"), "the end of the evaluator")
    wait_for_notes(flota, "trainer.0", "trainer.1")

    (flota.directory / "finish").touch()

    _, err = running.output()
    assert running.process.returncode == 0
    log = flota.directory / "log" / "evaluatorlog.0"
    assert f"evaluator 0 failed: exit code 9; continuing without it; log: {log}\n" in err
    assert "2 trainers finished successfully in" in err and "; ignored: evaluator 0" in err
    assert (report(flota)["verdict"], report(flota)["failures"]) == ("succeeded", [])
    assert report(flota)["ignored"] == ["evaluator 0"]
    assert not has_note(flota, "trainer.0", "stopped")


def test_a_worker_that_cannot_start_may_be_ignored(flota):
    broken = flota.directory / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    write_config(flota, f"[roles.trainer]\n[roles.evaluator]\nscript = '{broken}'\non_failure = 'ignore'\n")

    result = flota.run(PLAYS, env=play("trainer=end"))

    assert result.returncode == 0, result.stderr
    assert "1 trainer finished successfully" in result.stderr


@pytest.mark.parametrize(("culprit", "other", "code", "rounds"), [("chief", "worker", 7, 1), ("worker", "chief", 0, 3)])
def test_a_role_says_whether_its_failure_is_restarted(flota, culprit, other, code, rounds):
    write_config(flota, "max_restart = 3\n[roles.chief]\non_failure = 'end'\n[roles.worker]")

    result = flota.run(PLAYS, env=play(f"{culprit}=7 {other}=end", FAIL_UNTIL="1"))

    assert result.returncode == code
    assert f"{culprit} 0 failed{' first' * (rounds == 1)}: exit code 7" in result.stderr
    assert report(flota)["rounds"] == rounds
