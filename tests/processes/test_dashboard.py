"""The page's server: who it answers, and how it begins and ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.launching import COMMAND, assert_nobody_left, children, environment, wait_until

OWN = {"X-Flota": "1"}


class Page:
    """A client of a page's server."""

    def __init__(self, link: str) -> None:
        self.host, self.token = re.match(r"http://([^/]+)/#token=(\S+)", link).groups()
        self.bearer = {"Authorization": f"Bearer {self.token}"}

    def ask(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> http.client.HTTPResponse:
        with closing(http.client.HTTPConnection(self.host, timeout=20)) as connection:
            connection.request(method, path, body=body and body.encode(), headers=headers)
            answer = connection.getresponse()
            answer.text = answer.read().decode()
        return answer

    @contextmanager
    def stream(self) -> Iterator[http.client.HTTPResponse]:
        with closing(http.client.HTTPConnection(self.host, timeout=30)) as connection:
            connection.request("GET", "/api/stream", headers=self.bearer)
            with closing(connection.getresponse()) as answer:
                yield answer

    def get(self, path: str) -> dict:
        answer = self.ask(path, **self.bearer)
        assert answer.status == 200, answer.text
        return json.loads(answer.text)

    def log_in(self) -> str:
        answer = self.ask("/api/login", "POST", json.dumps({"token": self.token}), Origin=f"http://{self.host}", **OWN)
        assert answer.status == 200
        return answer.getheader("Set-Cookie")


def read_link(command: subprocess.Popen) -> str:
    """Of `flota dashboard --json`."""
    return json.loads("".join(iter(command.stdout.readline, "}\n")) + "}")["link"]


@pytest.fixture
def job(flota):
    """A job whose node serves its page."""
    running = flota.start("--nproc_per_node", 2, "--dashboard", "--", "steps.py", env={"STAGE": str(flota.directory)})
    wait_until((flota.directory / "log" / "dashboard.token").exists, "the page's token")
    return running


@pytest.fixture
def page(flota, job):
    token = flota.directory / "log" / "dashboard.token"
    own = flota.directory / "log" / f"default.{os.uname().nodename}.log"
    wait_until(lambda: "page: http" in own.read_text(), "the page's link")
    return Page(re.search(r"page: (http\S+#token=)", own.read_text())[1] + token.read_text().strip())


@pytest.fixture
def dashboard(flota):
    """`flota dashboard …`: its page."""
    started = []

    def start(*words: object) -> Page:
        command = [COMMAND, "dashboard", "--json", *map(str, words)]
        options = {"cwd": flota.directory, "env": environment(), "stdout": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, **options))
        return Page(read_link(started[-1]))

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_the_token_of_the_command_is_printed_on_a_terminal_but_not_into_a_pipe(flota, job):
    words = [COMMAND, "dashboard", "--job", str(job.pid)]
    options = {"cwd": flota.directory, "env": environment(), "stderr": subprocess.PIPE}
    with subprocess.Popen(words, stdout=subprocess.PIPE, **options) as page:
        link, note = page.stdout.readline(), page.stderr.readline()
        page.kill()
    terminal, end = os.openpty()
    with subprocess.Popen(words, stdout=end, **options) as page:
        os.close(end)
        shown = os.read(terminal, 1000)
        page.kill()
    os.close(terminal)

    assert re.fullmatch(rb"http://127.0.0.1:\d+/#token=TOKEN\n", link) and b"use --json" in note
    assert re.fullmatch(rb"http://127.0.0.1:\d+/#token=[\w-]{32}\r\n", shown)


def test_the_token_is_in_no_log_and_not_readable_by_others(flota, job, page):
    log = flota.directory / "log"
    job.process.send_signal(signal.SIGTERM)
    out, err = job.output()

    assert page.token not in out + err
    assert not [path for path in log.iterdir() if page.token in path.read_text()]


def test_the_token_file_is_private_while_the_job_runs_and_gone_after_it(flota, job, page):
    file = flota.directory / "log" / "dashboard.token"
    assert file.stat().st_mode & 0o777 == 0o600

    job.process.send_signal(signal.SIGTERM)
    job.output()

    assert not file.exists()


def test_no_secret_is_in_the_arguments_or_the_environment_of_the_server(flota):
    running = flota.start("--dashboard", "--", "sleeps.py", env={"FLOTA_TOKEN": "verysecret"})
    wait_until((flota.directory / "log" / "dashboard.token").exists, "the page's token")
    token = (flota.directory / "log" / "dashboard.token").read_text().strip()
    server = server_of(running.pid)

    seen = b"".join(Path(f"/proc/{server}/{name}").read_bytes() for name in ("cmdline", "environ"))
    assert b"verysecret" not in seen and token.encode() not in seen


def server_of(pid: int) -> int:
    found = [one for one in children(pid) if b"dashboard" in Path(f"/proc/{one}/cmdline").read_bytes()]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_ends_with_flota(flota, job, page, number):
    os.kill(job.pid, number)
    job.output()

    assert_nobody_left(10.0, flota.before)


def test_the_job_runs_on_without_the_server(flota, job, page):
    os.kill(server_of(job.pid), signal.SIGKILL)
    (flota.directory / "finish").touch()

    assert job.wait() == 0


def test_a_port_that_is_in_use_is_only_a_warning_for_the_job(flota):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        running = flota.start("--dashboard", port, "--", "steps.py", env={"STAGE": str(flota.directory)})
        own = flota.directory / "log" / f"default.{os.uname().nodename}.log"
        wait_until(lambda: own.exists() and "cannot serve the page" in own.read_text(), "the warning")
    (flota.directory / "finish").touch()

    _, err = running.output()
    assert running.process.returncode == 0
    assert f"cannot serve the page at 127.0.0.1:{port}: address already in use" in err


def test_a_wrong_address_is_a_usage_error(flota):
    ended = flota.run("--dashboard=nowhere", "sleeps.py")

    assert ended.returncode == 2
    assert "`nowhere`" in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "path",
    [
        "/api/stream",
        "/api/curves",
        "/api/timeline",
        "/api/log?rank=0&offset=0",
        "/api/tails",
        "/api/stacks",
        "/metrics",
    ],
)
def test_without_the_token_there_is_no_data(page, path):
    assert page.ask(path).status == 401
    assert page.ask(path, Authorization="Bearer wrong").status == 401
    assert page.ask(path, Cookie="flota-00=x").status == 401


def test_the_page_itself_holds_no_data_and_allows_nothing_from_elsewhere(page):
    answer = page.ask("/")

    assert answer.status == 200 and "<main" in answer.text
    assert "default-src 'none'" in answer.getheader("Content-Security-Policy")
    assert "frame-ancestors 'none'" in answer.getheader("Content-Security-Policy")
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert page.ask("/../../etc/passwd").status == page.ask("/%2e%2e/web_server.py").status == 404


def test_a_request_for_another_name_is_refused(page):
    assert page.ask("/", Host="evil.example").status == 421
    assert page.ask("/api/curves", Host=f"evil.example:{page.host.partition(':')[2]}", **page.bearer).status == 421


def test_a_cookie_is_given_for_the_token_alone_and_scripts_cannot_read_it(page):
    cookie = page.log_in()

    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and page.token not in cookie
    assert page.ask("/api/curves", Cookie=cookie.partition(";")[0]).status == 200
    for body in ('{"token": "x"}', "{}", "[1]", "\xff", '{"token": 1}'):
        assert page.ask("/api/login", "POST", body, Origin=f"http://{page.host}", **OWN).status == 401
    assert page.ask("/api/login", "POST", "x" * 5000, Origin=f"http://{page.host}", **OWN).status == 413


@pytest.mark.parametrize("verb", ["stop", "restart", "drain"])
def test_a_page_of_another_site_cannot_act(job, page, verb):
    cookie = {"Cookie": page.log_in().partition(";")[0]}

    for headers in (
        {"Origin": "http://evil.example", **OWN},
        {"Origin": f"http://{page.host}"},
        {"Origin": "null", **OWN},
        {**OWN},
        {"Origin": f"http://{page.host}", "Sec-Fetch-Site": "cross-site", **OWN},
    ):
        assert page.ask(f"/api/{verb}", "POST", "{}", **cookie, **headers).status == 403
    assert page.ask(f"/api/{verb}", "GET", **cookie, **OWN).status == 404
    assert job.process.poll() is None


def test_the_page_can_stop_the_job(job, page):
    headers = {"Cookie": page.log_in().partition(";")[0], "Origin": f"http://{page.host}", **OWN}

    answer = page.ask("/api/stop", "POST", "{}", **headers)

    assert (answer.status, json.loads(answer.text)) == (200, {"message": "stopping the job"})
    assert job.wait() == 143


def test_what_cannot_be_done_is_said(job, page):
    headers = {"Cookie": page.log_in().partition(";")[0], "Origin": f"http://{page.host}", **OWN}

    assert "has only this node" in page.ask("/api/drain", "POST", '{"seat": 0}', **headers).text
    assert page.ask("/api/drain", "POST", '{"seat": 9}', **headers).status == 409
    assert page.ask("/api/drain", "POST", '{"seat": "x"}', **headers).status == 400
    assert page.ask("/api/log?rank=9&offset=0", **page.bearer).status == 409
    assert page.ask("/api/log?rank=x&offset=0", **page.bearer).status == 400
    assert page.ask("/api/log?rank=0&offset=99999999999999999999", **page.bearer).status == 400


def test_a_log_is_read_on_from_where_the_last_part_ended(flota, page):
    first = page.get("/api/log?rank=0&offset=-100000")
    with open(flota.directory / "log" / "workerlog.0", "ab") as log:
        log.write(b"new\nincomplete")
    second = page.get(f"/api/log?rank=0&offset={first['next']}")

    assert first["lines"][0].startswith("===== flota: job default, round 0")
    assert second["lines"] == ["new"]
    assert page.get(f"/api/log?rank=0&offset={second['next']}")["lines"] == []


def test_strangers_who_hold_connections_do_not_lock_out_the_user(page):
    host, port = page.host.split(":")
    held = [socket.create_connection((host, int(port))) for _ in range(200)]

    assert page.get("/api/timeline")["rounds"][0]["round"] == 0
    for one in held:
        one.close()


def test_a_stream_ends_with_the_job_and_then_shows_its_report(flota, dashboard):
    running = flota.start("--nproc_per_node", 2, "fails.py", env={"FAIL_HOW": "7", "FAIL_UNTIL": "0", "FAIL_RANK": "9"})
    running.wait_for("ready.0.0", "ready.1.0")
    page = dashboard("--job", running.pid)
    with page.stream() as stream:
        assert read_snapshot(stream)["job"]["state"] == "running"

        running.process.send_signal(signal.SIGTERM)
        running.output()

        last = next(one for one in iter(lambda: read_snapshot(stream), None) if not one["live"])
    assert last["job"]["state"] == "stopped"
    assert "SIGTERM" in last["report"][0]
    assert page.get("/api/timeline")["ended"] > 0


def read_snapshot(stream: http.client.HTTPResponse) -> dict:
    while not (line := stream.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    return json.loads(line.removeprefix(b"data: "))


def test_a_finished_job_is_shown_from_its_log_directory(flota, dashboard):
    flota.run("--nproc_per_node", 3, "--max_restart", 1, "--log_dir", "out", "fails.py", env={"FAIL_HOW": "7"})

    page = dashboard("out")

    with page.stream() as stream:
        snapshot = read_snapshot(stream)
    assert (snapshot["live"], snapshot["job"]["state"], snapshot["job"]["exit_code"]) == (False, "failed", 7)
    assert snapshot["ranks"]["state"] == ["stopped", "failed", "stopped"]
    assert any("rank 1 failed first: exit code 7" in line for line in snapshot["report"])
    assert [one["failed"] for one in page.get("/api/timeline")["rounds"]] == [1, 1]
    assert "rank 1 is about to fail on attempt 1" in page.get("/api/log?rank=1&offset=-5000")["lines"]
    assert any(line["text"].startswith("===== flota: round 1") for line in page.get("/api/tails")["lines"])
    assert page.ask("/api/stacks", **page.bearer).status == 409
    metrics = page.ask("/metrics", **page.bearer).text
    assert 'flota_restarts_total{cause="exit code",job_id="default"} 1.0' in metrics
    assert 'flota_node_joins_total{job_id="default"} 1.0' in metrics
    assert 'flota_node_losses_total{job_id="default"} 0.0' in metrics


def test_a_short_job_has_curves_after_its_end(flota, dashboard):
    script = flota.directory / "train.py"
    script.write_text(
        "import time, flota\nfor step in range(20):\n    time.sleep(0.02)\n    flota.heartbeat(step, loss=9 - step)\n"
    )
    flota.run("--nproc_per_node", 2, script)

    page = dashboard("log")

    curves = page.get("/api/curves")
    assert len(curves["at"]) >= 2 and curves["values"]["seconds"][-1] > 0
    assert curves["values"]["number:loss"][-1] == -10
    with page.stream() as stream:
        snapshot = read_snapshot(stream)
    assert snapshot["progress"]["step"] > 0 and all(snapshot["ranks"]["seconds"])


def test_a_page_that_is_opened_late_shows_the_whole_life_of_the_job(flota, job, dashboard):
    own = flota.directory / "log" / f"events.{os.uname().nodename}.jsonl"
    wait_until(lambda: '"progress"' in own.read_text(), "the first record")

    page = dashboard("--job", job.pid)

    wait_until(lambda: len(page.get("/api/curves")["at"]) >= 3, "the curves of the time before")
    with page.stream() as stream:
        began = read_snapshot(stream)["job"]["began"]
    assert page.get("/api/curves")["at"][0] - began < 5.0


def test_a_report_that_cannot_be_written_is_one_line(flota):
    flota.run("prints.py")

    ended = flota.run("report", "--html", "missing/report.html")

    assert ended.returncode == 2 and "cannot write `missing/report.html`" in ended.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "no job has written"),
        (["a", "b"], "unexpected argument `b`"),
        (["--job", "77"], "no "),
        (["--listen", "x", "."], "`x`"),
    ],
)
def test_bad_input_is_one_line_and_a_hint(flota, words, said):
    ended = flota.run("dashboard", *words)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr and "Traceback" not in ended.stderr
