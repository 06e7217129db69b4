"""A real Chromium, one for all tests of this folder, and pages of jobs that are served by this process."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager

import pytest

from flota.dashboard.job_source import JobSource
from flota.dashboard.live_job import LiveJob
from flota.dashboard.web_server import PageServer
from tests.browser.fake_job import FakeJob

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="session")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api")
    if not os.access(CHROMIUM, os.X_OK):
        pytest.skip("Chromium is not installed: apt install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium):
    """Opens a link in a browser without cookies. What the page's console says must be expected."""
    opened = []

    def start(link: str, *, expected: str = "no message", width: int = 1440, height: int = 900, scheme: str = "light"):
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        page = context.new_page()
        said: list[str] = []
        opened.append((context, said, expected))
        page.on("console", lambda message: said.append(f"{message.text} {message.location.get('url', '')}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(link)
        return page

    yield start
    for context, said, expected in opened:
        context.close()
        assert not [words for words in said if expected not in words]


@contextmanager
def serving(source: JobSource):
    server = PageServer("127.0.0.1", 0)
    server.source = source
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def serve():
    """Serves the page of a job with so many nodes and ranks. Returns the job and the server."""
    started = []

    def start(nodes: int = 8, ranks: int = 64, texts: dict[str, str] | None = None) -> tuple[FakeJob, PageServer]:
        job = FakeJob(nodes, ranks, texts)
        started.append(serving(LiveJob(job, {}, bool)))
        return job, started[-1].__enter__()

    yield start
    for one in started:
        one.__exit__(None, None, None)
