"""What Prometheus reads from the pages of jobs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from tests.launching import wait_until
from tests.processes.test_dashboard import Page, dashboard, read_link  # noqa: F401  a fixture

UNPACKED = Path(sys.executable).parents[1] / "prometheus" / "usr" / "bin"


def find(name: str) -> str:
    path = shutil.which(name) or str(UNPACKED / name)
    if not Path(path).exists():
        pytest.skip(f"{name} is missing: make test SYSTEM=1 unpacks it")
    return path


@pytest.fixture
def two_jobs(flota, dashboard):  # noqa: F811
    """Two jobs with steps, and their pages."""
    pages = []
    for name in ("first", "second"):
        words = ("--nproc_per_node", 2, "--job_id", name, "--log_dir", name, "steps.py")
        running = flota.start(*words, env={"STAGE": str(flota.directory)})
        wait_until(lambda name=name: list((flota.directory / name).glob("events.*")), "the job")
        pages.append(dashboard("--job", running.pid))
        wait_until(lambda page=pages[-1]: "flota_rank_step_seconds{" in read(page), "step times")
    return pages


def read(page: Page) -> str:
    answer = page.ask("/metrics", **page.bearer)
    assert answer.status == 200
    return answer.text


def test_metrics_are_as_promtool_wants_them(two_jobs):
    promtool = find("promtool")

    for page in two_jobs:
        checked = subprocess.run(
            [promtool, "check", "metrics"], input=read(page), capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_prometheus_scrapes_two_jobs(two_jobs, tmp_path):
    jobs = []
    for number, page in enumerate(two_jobs):
        (tmp_path / f"token.{number}").write_text(f"{page.token}\n")
        jobs.append(
            f"- job_name: job{number}\n  authorization: {{credentials_file: {tmp_path}/token.{number}}}\n"
            f"  static_configs: [{{targets: ['{page.host}']}}]\n"
        )
    config = tmp_path / "prometheus.yml"
    config.write_text(f"global: {{scrape_interval: 1s}}\nscrape_configs:\n{''.join(jobs)}")
    words = [f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data", "--web.listen-address=127.0.0.1:0"]
    with open(tmp_path / "prometheus.log", "wb") as log:
        server = subprocess.Popen([find("prometheus"), *words], stdout=log, stderr=log)
    try:
        wait_until(lambda: address_in(tmp_path / "prometheus.log"), "Prometheus")
        where = address_in(tmp_path / "prometheus.log")

        wait_until(lambda: jobs_in(where, 'flota_workers{state="running"} == 2') == {"first", "second"}, "both jobs")
        wait_until(lambda: jobs_in(where, "flota_step > 0") == {"first", "second"}, "their steps")
        assert jobs_in(where, 'flota_rank_step_seconds{rank="1"} > 0.1') == {"first", "second"}
    finally:
        server.kill()
        server.wait()


def address_in(log: Path) -> str:
    found = [line for line in log.read_text().splitlines() if "Listening on" in line]
    return found[0].rpartition("address=")[2].split()[0].strip('"') if found else ""


def jobs_in(where: str, query: str) -> set[str]:
    """The jobs of which the query has a value."""
    try:
        with urlopen(f"http://{where}/api/v1/query?query={quote(query)}", timeout=10) as answer:
            return {one["metric"]["job_id"] for one in json.load(answer)["data"]["result"]}
    except OSError:
        return set()


def test_without_prometheus_client_the_answer_says_what_to_install(flota, tmp_path):
    (tmp_path / "prometheus_client.py").write_text("raise ImportError")
    flota.run("prints.py")
    command = [sys.executable, "-m", "flota", "dashboard", "log", "--json"]
    server = subprocess.Popen(
        command, cwd=tmp_path, env={"PATH": "/usr/bin", "PYTHONPATH": str(tmp_path)}, stdout=subprocess.PIPE, text=True
    )
    try:
        page = Page(read_link(server))
        answer = page.ask("/metrics", **page.bearer)
    finally:
        server.kill()
        server.communicate()

    assert answer.status == 503
    assert "pip install prometheus_client" in json.loads(answer.text)["error"]
