"""Jobs with roles on one machine: who starts and ends when, what a death means, and what is said of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import time

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


# Starting.


def test_whoever_serves_is_started_first_and_all_are_of_one_round(flota):
    counts = ["--server_num", 2, "--trainer_num", 2, "--coordinator_num", 1, "--heter_worker_num", "1;2"]

    result = flota.run(*counts, "--grace", "0.1", PLAYS, env=play("trainer=end"))

    assert result.returncode == 0
    started = [(event.get("role", "trainer"), event["rank"]) for event in events(flota, "worker_started")]
    assert started == [
        *(("server", 0), ("server", 1), ("coordinator", 0)),
        *(("heter", 0), ("heter", 1), ("heter", 2), ("trainer", 0), ("trainer", 1)),
    ]
    assert [event["round"] for event in events(flota, "round_started")] == [0]
    assert "Local start 8 processes" in result.stderr
    logs = {path.name for path in (flota.directory / "log").glob("*log.?")}
    assert logs == {
        *("serverlog.0", "serverlog.1", "coordinatorlog.0", "heterlog.0", "heterlog.1", "heterlog.2"),
        *("workerlog.0", "workerlog.1"),
    }
    assert worker_output(flota.directory / "log" / "heterlog.2") == "heter 2 is here\n"


def test_trainers_reach_every_server_at_the_endpoint_they_were_told(flota):
    flota.run("--server_num", 2, "--trainer_num", 2, "--grace", "0.1", PLAYS, env=play("trainer=end"))

    assert note(flota, "trainer.0", "answered")["answers"] == ["server 0", "server 1"]
    assert note(flota, "trainer.1", "answered")["answers"] == ["server 0", "server 1"]
    told = {worker: note(flota, worker) for worker in ("server.0", "server.1", "trainer.0", "trainer.1")}
    assert len({one["PADDLE_GLOO_HTTP_ENDPOINT"] for one in told.values()}) == 1
    lists = {(one["FLOTA_ENDPOINTS_SERVER"], one["FLOTA_ENDPOINTS_TRAINER"]) for one in told.values()}
    servers, trainers = (text.split(",") for text in lists.pop())
    assert not lists
    assert [told["server.0"]["FLOTA_ENDPOINT"], told["server.1"]["FLOTA_ENDPOINT"]] == servers
    assert [told["trainer.0"]["FLOTA_ENDPOINT"], told["trainer.1"]["FLOTA_ENDPOINT"]] == trainers
    listed = ["PADDLE_TRAINER_ENDPOINTS:", *trainers, "PADDLE_PSERVERS_IP_PORT_LIST:", *servers]
    assert (flota.directory / "log" / "endpoints.log").read_text().splitlines() == listed


def test_workers_have_the_endpoints_that_were_listed(flota, free_ports):
    ports = free_ports(5)
    one, two, three, four = (f"127.0.0.1:{port}" for port in ports[:4])
    lists = ["--servers", f"{one},{two}", "--trainers", f"{three},{four}", "--gloo_port", ports[4]]

    result = flota.run(*lists, "--grace", "0.1", PLAYS, env=play("trainer=end"))

    assert result.returncode == 0
    assert [note(flota, f"server.{rank}")["FLOTA_ENDPOINT"] for rank in (0, 1)] == [one, two]
    assert [note(flota, f"trainer.{rank}")["FLOTA_ENDPOINT"] for rank in (0, 1)] == [three, four]
    assert note(flota, "trainer.1", "answered")["answers"] == ["server 0", "server 1"]
    assert note(flota, "server.1")["PADDLE_GLOO_HTTP_ENDPOINT"] == f"127.0.0.1:{ports[4]}"


def test_run_mode_ps_alone_means_one_of_each(flota):
    result = flota.run("--run_mode", "ps", "--grace", "0.1", PLAYS, env=play("trainer=end"))

    assert result.returncode == 0
    assert report(flota)["roles"] == {"server": 1, "trainer": 1}
    assert note(flota, "trainer.0", "answered")["answers"] == ["server 0"]


def test_run_mode_rpc_has_workers_alone(flota):
    result = flota.run("--run_mode", "rpc", "--nproc_per_node", 2, "dumps_env.py")

    assert result.returncode == 0
    told = [json.loads((flota.directory / f"dump.{rank}.json").read_text())["env"] for rank in (0, 1)]
    assert [one["PADDLE_TRAINER_ID"] for one in told] == ["0", "1"]
    assert told[0]["PADDLE_MASTER_ENDPOINT"] == told[1]["PADDLE_MASTER_ENDPOINT"]
    assert len({one["PADDLE_WORKER_ENDPOINT"] for one in told} | {told[0]["PADDLE_MASTER_ENDPOINT"]}) == 3
    assert (flota.directory / "log" / "workerlog.1").exists()
    assert "2 workers ended well" in result.stderr


def test_trainers_share_devices_in_turn_with_one_warning(flota):
    more = play("trainer.2=3 trainer=end", FAIL_UNTIL="0", CUDA_VISIBLE_DEVICES="4,6")

    result = flota.run("--server_num", 1, "--trainer_num", 3, "--max_restart", 1, "--grace", "0.1", PLAYS, env=more)

    assert result.returncode == 0
    assert [note(flota, f"trainer.{rank}", number=1)["device"] for rank in range(3)] == ["4", "6", "4"]
    assert note(flota, "trainer.1", number=1)["CUDA_VISIBLE_DEVICES"] == "6"
    assert note(flota, "server.0", number=1)["CUDA_VISIBLE_DEVICES"] == ""
    assert result.stderr.count("3 workers share 2 devices") == 1


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
    assert "server 0 gets" in table
    assert [(worker["role"], worker["rank"]) for worker in plan["workers"]] == [
        ("server", 0),
        ("trainer", 0),
        ("trainer", 1),
    ]
    assert plan["workers"][0]["env"]["TRAINING_ROLE"] == "PSERVER"
    assert not (flota.directory / "log").exists()


# What cannot start.


@pytest.mark.parametrize("flag", ["--servers", "--trainers", "--gloo_port"])
def test_a_port_in_use_is_named_with_its_owner_and_nothing_starts(flota, free_ports, taken_port, flag):
    server, trainer, gloo = free_ports(3)
    ports = {"--servers": server, "--trainers": trainer, "--gloo_port": gloo, flag: taken_port}
    lists = ["--servers", f"127.0.0.1:{ports['--servers']}", "--trainers", f"127.0.0.1:{ports['--trainers']}"]

    result = flota.run(*lists, "--with_gloo", 1, "--gloo_port", ports["--gloo_port"], PLAYS)

    assert result.returncode == 2
    said = f"flota: error: port {taken_port} is in use by pid {os.getpid()}, "
    assert [line.startswith(said) for line in result.stderr.split("\n\n")[:-1]] == [True]
    assert not list(flota.directory.glob("came.*"))


def test_a_listed_port_in_use_is_noticed_whatever_a_variable_says_of_ports(flota, free_ports, taken_port):
    lists = ["--servers", f"127.0.0.1:{taken_port}", "--trainers", "127.0.0.1"]

    result = flota.run(*lists, PLAYS, env={"PADDLE_START_PORT": str(free_ports(1)[0])})

    assert result.returncode == 2
    assert f"port {taken_port} is in use" in result.stderr


def test_a_gloo_port_in_use_is_named_where_servers_are_counted(flota, taken_port):
    words = ("--server_num", 1, "--trainer_num", 1, "--gloo_port", taken_port, "--with_gloo")
    result = flota.run(*words, 1, PLAYS)

    assert result.returncode == 2
    assert f"port {taken_port} is in use by pid {os.getpid()}, " in result.stderr
    assert not list(flota.directory.glob("came.*"))
    without = flota.run(*words, 0, "--grace", "0.1", PLAYS, env=play("trainer=end"))
    assert without.returncode == 0, "nobody uses the port where gloo is off"


# Ending well.


def test_servers_that_stay_are_stopped_when_the_grace_is_over(flota):
    result = flota.run("--server_num", 2, "--trainer_num", 2, "--grace", "0.5", PLAYS, env=play("trainer=end"))

    assert result.returncode == 0
    assert "the work is done; 2" in result.stderr
    assert "2 servers, 2 trainers ended well" in result.stderr
    assert has_note(flota, "server.0", "stopped")
    assert report(flota)["verdict"] == "succeeded"
    assert report(flota)["stopped_by_flota"] == ["server 0", "server 1"]
    ends = {(event.get("role"), event["rank"]): event["monotonic"] for event in events(flota, "worker_exited")}
    assert ends["server", 0] - max(ends[None, 0], ends[None, 1]) >= 0.5


def test_servers_that_end_by_themselves_are_not_waited_for(flota):
    began = time.monotonic()

    result = flota.run("--server_num", 2, "--trainer_num", 2, PLAYS, env=play("trainer=end server=outlive"))

    assert result.returncode == 0
    assert time.monotonic() - began < 20  # the grace is 30
    assert "the work is done; 2" in result.stderr
    assert report(flota)["stopped_by_flota"] == []


def test_a_server_that_ends_badly_after_the_work_is_told_and_no_failure(flota):
    result = flota.run("--run_mode", "ps", PLAYS, env=play("trainer=end server=outlive.5"))

    assert result.returncode == 0
    assert "server 0 ended with exit code 5, after the work was done; log: " in result.stderr
    assert report(flota)["failures"] == []


def test_a_server_that_does_not_hear_sigterm_is_killed(flota):
    result = flota.run("--run_mode", "ps", "--grace", "0.2", PLAYS, env=play("server=deaf trainer.0=0"))

    assert result.returncode == 0
    codes = {(event.get("role"), event["code"]) for event in events(flota, "worker_exited")}
    assert codes == {(None, 0), ("server", -signal.SIGKILL)}
    assert_nobody_left()


def test_a_server_that_has_ended_well_before_the_trainers_is_not_missed(flota):
    running = flota.start("--server_num", 2, "--trainer_num", 1, "--grace", "0.1", PLAYS, env=play("server.0=0"))
    wait_until(lambda: events(flota, "worker_exited"), "the end of a server")

    tell_to_end(flota, "trainer.0", "0")  # well, though it still calls the server that has ended

    assert running.wait() == 0
    assert report(flota)["stopped_by_flota"] == ["server 1"]


def test_a_job_of_servers_alone_ends_when_they_do(flota):
    words = ["--server_num", 2, "--trainer_num", 0, "--grace", "0.1"]
    running = flota.start(*words, PLAYS, env=play("server=work"))
    wait_for_notes(flota, "server.0", "server.1")

    (flota.directory / "finish").touch()

    out, err = running.output()
    assert running.process.returncode == 0
    assert out == "server 0 is here\n"
    assert "the work is done" not in err
    assert "2 servers ended well" in err
    assert report(flota)["stopped_by_flota"] == []


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_hurries_servers_that_may_end_by_themselves(flota, name):
    running = flota.start("--run_mode", "ps", PLAYS, env=play("trainer=end"))
    log = flota.directory / "log"
    wait_until(lambda: any("the work is done" in path.read_text() for path in log.glob("default.*.log")), "the word")

    os.kill(running.pid, getattr(signal, name))

    assert running.wait() == 0
    assert has_note(flota, "server.0", "stopped")
    assert report(flota)["verdict"] == "succeeded"


def test_a_shepherd_that_dies_after_the_work_is_no_failure(flota):
    running = flota.start("--run_mode", "ps", PLAYS, env=play("trainer=end"))
    log = flota.directory / "log"
    wait_until(lambda: any("the work is done" in path.read_text() for path in log.glob("default.*.log")), "the word")

    os.kill(running.shepherd(), signal.SIGKILL)

    assert running.wait() == 0
    assert report(flota)["verdict"] == "succeeded"
    assert_nobody_left()


# Ending badly.


@pytest.mark.parametrize(("how", "code", "ending"), [("3", 3, "exit code 3"), ("SIGKILL", 137, "SIGKILL (killed")])
def test_a_server_that_dies_fails_the_job(flota, how, code, ending):
    result = flota.run("--server_num", 2, "--trainer_num", 2, PLAYS, env=play(f"server.1={how}"))

    assert result.returncode == code
    log = flota.directory / "log" / "serverlog.1"
    lines = result.stderr.splitlines()
    aborted = "ABORT!!! Out of all 2 servers, the server process with rank=[1] was aborted. Please check its log."
    begin = lines.index(aborted)
    assert lines[begin + 1].startswith(f"server 1 failed first: {ending}")
    assert {"  server 1 was told to fail", f"log: {log}"} <= set(lines[begin:])
    assert lines[-1] == "stopped by flota: server 0; ranks 0-1"
    failure = report(flota)["failures"][0]
    assert (failure["role"], failure["rank"], failure["log"]) == ("server", 1, str(log))
    assert failure["said"] == ["server 1 is here", "server 1 was told to fail"]
    assert report(flota)["stopped_by_flota"] == ["server 0", 0, 1]


def test_a_server_that_is_killed_while_trainers_work_fails_the_job(flota):
    running = flota.start("--run_mode", "ps", PLAYS)
    wait_for_notes(flota, "trainer.0", kind="answered")

    os.kill(note(flota, "server.0")["pid"], signal.SIGKILL)

    assert running.wait() == 137
    assert has_note(flota, "trainer.0", "stopped")
    assert (report(flota)["failures"][0]["role"], report(flota)["failures"][0]["rank"]) == ("server", 0)


def test_a_trainer_that_dies_stops_the_servers(flota):
    result = flota.run("--server_num", 1, "--trainer_num", 2, PLAYS, env=play("trainer.1=4"))

    assert result.returncode == 4
    aborted = "ABORT!!! Out of all 2 trainers, the trainer process with rank=[1] was aborted. Please check its log."
    assert aborted in result.stderr
    assert "rank 1 failed first: exit code 4" in result.stderr
    assert (report(flota)["failures"][0]["role"], report(flota)["failures"][0]["rank"]) == ("trainer", 1)
    assert report(flota)["stopped_by_flota"] == ["server 0", 0]
    assert "the work is done" not in result.stderr


@pytest.mark.parametrize(("culprit", "named"), [("server.0", "server 0"), ("trainer.1", "rank 1")])
def test_a_restart_starts_all_roles_in_order_with_fresh_ports(flota, culprit, named):
    words = ["--server_num", 1, "--trainer_num", 2, "--max_restart", 1, "--grace", "0.1"]
    running = flota.start(*words, PLAYS, env=play("trainer=work"))
    wait_for_notes(flota, "trainer.0", "trainer.1", kind="answered")

    tell_to_end(flota, culprit, "6")

    wait_for_notes(flota, "trainer.0", "trainer.1", kind="answered", number=1)
    (flota.directory / "finish").touch()
    _, err = running.output()
    assert running.process.returncode == 0
    assert f"{named} failed first: exit code 6" in err
    assert "restart 1 of 1" in err
    assert [event["round"] for event in events(flota, "round_started")] == [0, 1]
    started = [(event.get("role"), event["rank"]) for event in events(flota, "worker_started")]
    assert started == [("server", 0), (None, 0), (None, 1)] * 2
    ports = [set(note(flota, "server.0", number=number)["FLOTA_ENDPOINTS_SERVER"].split(",")) for number in (0, 1)]
    trainers = [set(note(flota, "server.0", number=number)["FLOTA_ENDPOINTS_TRAINER"].split(",")) for number in (0, 1)]
    assert not (ports[0] | trainers[0]) & (ports[1] | trainers[1])
    assert report(flota)["attempt"] == 1


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_stops_all_roles(flota, name):
    running = flota.start("--server_num", 1, "--trainer_num", 2, PLAYS)
    wait_for_notes(flota, "server.0", "trainer.0", "trainer.1")

    os.kill(running.pid, getattr(signal, name))

    assert running.wait() == 128 + getattr(signal, name)
    assert has_note(flota, "server.0", "stopped")
    assert has_note(flota, "trainer.1", "stopped")
    assert report(flota)["verdict"] == "stopped"
    assert_nobody_left()


@pytest.mark.parametrize("end", ["trainers", "trainer fails", "server", "node", "shepherd", "SIGTERM"])
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
        os.kill(victim, signal.SIGTERM if end == "SIGTERM" else signal.SIGKILL)

    codes = {"trainers": 0, "trainer fails": 5, "server": 137, "node": -9, "shepherd": 137, "SIGTERM": 143}
    assert running.wait() == codes[end]
    assert_nobody_left()


# What is shown.


def test_the_console_shows_trainer_0_and_not_server_0(flota):
    result = flota.run("--server_num", 1, "--trainer_num", 2, "--grace", "0.1", PLAYS, env=play("trainer=end"))

    assert result.stdout == "trainer 0 is here\n"


def test_all_on_the_console_have_their_roles_before_their_lines(flota):
    counts = ["--server_num", 1, "--trainer_num", 2, "--grace", "0.1"]

    result = flota.run(*counts, "--console", "all", PLAYS, env=play("trainer=end"))

    host = os.uname().nodename
    lines = {
        f"[{host}:server 0] server 0 is here",
        f"[{host}:0] trainer 0 is here",
        f"[{host}:1] trainer 1 is here",
    }
    assert set(result.stdout.splitlines()) == lines


# Roles of the user's own.


def write_config(flota, text):
    (flota.directory / "flota.toml").write_text(text.replace("PLAYS", str(WORKERS / PLAYS)))


def test_each_role_may_have_its_own_script_arguments_and_variables(flota):
    write_config(
        flota,
        """
        [roles.chief]
        script = "PLAYS"
        args = ["--as", "chief ${rank}"]
        env = {PLAY = "chief=end"}
        [roles.worker]
        count = 2
        script = "other.py"
        """,
    )
    (flota.directory / "other.py").write_text("import os\nopen('other.' + os.environ['RANK'], 'w')")

    result = flota.run()

    assert result.returncode == 0
    assert result.stdout == "chief 0 is here\n"
    assert note(flota, "chief.0")["argv"] == ["--as", "chief 0"]
    assert sorted(path.name for path in flota.directory.glob("other.?")) == ["other.0", "other.1"]
    assert {path.name for path in (flota.directory / "log").glob("*log.?")} == {
        "chieflog.0",
        "workerlog.0",
        "workerlog.1",
    }
    assert report(flota)["roles"] == {"chief": 1, "worker": 2}


def test_roles_without_a_script_have_the_jobs(flota):
    write_config(flota, "[roles.ps]\n[roles.worker]\nargs = ['own']")
    words = ["--roles", "worker=2", "--grace", "0.1"]

    result = flota.run(*words, PLAYS, "the", "jobs", env=play("worker=end"))

    assert result.returncode == 0
    assert note(flota, "ps.0")["argv"] == ["the", "jobs"]
    assert note(flota, "worker.1")["argv"] == ["own"]
    task = json.loads(note(flota, "worker.1")["TF_CONFIG"])
    assert task["task"] == {"type": "worker", "index": 1}
    assert task["cluster"]["ps"] == [note(flota, "ps.0")["FLOTA_ENDPOINT"]]
    assert report(flota)["stopped_by_flota"] == ["ps 0"]


def test_a_role_may_serve_whatever_its_name(flota):
    write_config(flota, "grace = '0.1'\n[roles.data]\nserves = true\n[roles.ps]\nserves = false\n[roles.trainer]")

    result = flota.run(PLAYS, env=play("data=serve ps=0 trainer=end"))

    assert result.returncode == 0
    started = [event.get("role") for event in events(flota, "worker_started")]
    assert started == ["data", "ps", None]
    assert report(flota)["stopped_by_flota"] == ["data 0"]


def test_a_failure_that_is_ignored_is_told_and_the_job_goes_on(flota):
    write_config(flota, "[roles.trainer]\ncount = 2\n[roles.evaluator]\non_failure = 'ignore'")
    running = flota.start(PLAYS, env=play("evaluator=9"))
    wait_until(lambda: events(flota, "worker_exited"), "the end of the evaluator")
    wait_for_notes(flota, "trainer.0", "trainer.1")

    (flota.directory / "finish").touch()

    _, err = running.output()
    assert running.process.returncode == 0
    log = flota.directory / "log" / "evaluatorlog.0"
    assert f"evaluator 0 ended with exit code 9, and the job goes on without it; log: {log}\n" in err
    assert report(flota)["verdict"] == "succeeded"
    assert report(flota)["failures"] == []
    assert not has_note(flota, "trainer.0", "stopped")


def test_a_failure_that_ends_the_job_is_not_restarted(flota):
    write_config(flota, "max_restart = 3\n[roles.chief]\non_failure = 'end'\n[roles.worker]")

    result = flota.run(PLAYS, env=play("chief=7"))

    assert result.returncode == 7
    assert "chief 0 failed first: exit code 7" in result.stderr
    assert report(flota)["rounds"] == 1


def test_another_roles_failure_is_restarted_beside_it(flota):
    write_config(flota, "max_restart = 3\n[roles.chief]\non_failure = 'end'\n[roles.worker]")

    result = flota.run(PLAYS, env=play("worker=7 chief=end", FAIL_UNTIL="1"))

    assert result.returncode == 0
    assert "worker 0 failed first: exit code 7" in result.stderr
    assert report(flota)["rounds"] == 3


def test_a_script_that_no_role_would_run_is_refused(flota):
    (flota.directory / "flota.toml").write_text(f'[roles.trainer]\nscript = "{PLAYS}"\n')

    result = flota.run("debug.py")

    assert result.returncode == 2
    assert "`debug.py` would not be run: every role in flota.toml has a script of its own" in result.stderr
    assert not list(flota.directory.glob("came.*"))


def test_a_worker_that_cannot_start_may_be_ignored_too(flota):
    broken = flota.directory / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    roles = f'[roles.trainer]\nscript = "{WORKERS / PLAYS}"\n[roles.evaluator]\nscript = "{broken}"\non_failure = "ignore"\n'
    (flota.directory / "flota.toml").write_text(roles)

    result = flota.run(env=play("trainer=end"))

    assert result.returncode == 0, result.stderr
    assert "1 trainer ended well" in result.stderr


def test_an_ignored_failure_is_in_the_report(flota):
    roles = '[roles.trainer]\n[roles.evaluator]\non_failure = "ignore"\n'
    (flota.directory / "flota.toml").write_text(roles)

    result = flota.run(PLAYS, env=play("evaluator=3 trainer=end"))

    assert result.returncode == 0, result.stderr
    assert "1 trainer ended well after" in result.stderr and "; ignored: evaluator 0" in result.stderr
    assert json.loads((flota.directory / "log" / "report.json").read_text())["ignored"] == ["evaluator 0"]
