"""Whether the page of a job with 1,024 ranks is smooth: the time of its frames in a real Chromium, while a snapshot
arrives each second and the table of ranks scrolls, compared with an empty page of the same browser.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from statistics import median
from typing import Any

from tests.browser.conftest import CHROMIUM, FLAGS, serving
from tests.browser.fake_job import FakeJob

from bench.processes import Broken
from bench.table import Row

NODES, RANKS = 128, 1024
TURNS, SECONDS = 3, 8.0  # measurements of each page in turn, and how long each is
LATE, LATE_BAR = 2.0, 5.0  # times the frame time of the empty page; percent of frames that may be later
MEDIAN_BAR = 1.2
# Returns the times of all frames, in milliseconds. Each frame scrolls the table a bit.
FRAMES = """(seconds) => new Promise((done) => {
  const view = document.querySelector("#table-view"), times = [];
  let step = 60;
  const frame = (now) => {
    times.push(now);
    if (view) {
      const before = view.scrollTop;
      view.scrollTop += step;
      if (view.scrollTop === before) step = -step;
    }
    if (now - times[0] < 1000 * seconds) requestAnimationFrame(frame); else done(times);
  };
  requestAnimationFrame(frame);
})"""


def measure() -> list[Row]:
    with ExitStack() as stack:
        browser = stack.enter_context(_chromium())
        server = stack.enter_context(serving(_source()))
        empty, page = browser.new_page(), browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.goto(server.link)
        page.wait_for_selector(".card")
        page.click("#show-table")
        page.wait_for_selector(".virtual .row:not(.titles)")
        frames: dict[str, list[float]] = {"empty": [], "page": []}
        for _ in range(TURNS):
            for name, one in (("empty", empty), ("page", page)):
                one.bring_to_front()
                frames[name] += _intervals(one.evaluate(FRAMES, SECONDS))
    usual = median(frames["empty"])
    ratio = median(frames["page"]) / usual
    late = {name: 100 * sum(one > LATE * usual for one in times) / len(times) for name, times in frames.items()}
    return [
        Row(
            f"frames of the page, {RANKS:,} ranks, table scrolls: median",
            f"{median(frames['page']):.1f} ms",
            ratio=f"{ratio:.2f}x of an empty page",
            bar=f"<= {MEDIAN_BAR}x",
            met=ratio <= MEDIAN_BAR,
            plain=f"{usual:.1f} ms",
        ),
        Row(
            f"the same: share of frames above {LATE:.0f} frame times of an empty page",
            f"{late['page']:.1f} %",
            ratio=f"longest {max(frames['page']):.0f} ms",
            bar=f"<= {LATE_BAR:.0f} %",
            met=late["page"] <= LATE_BAR,
            plain=f"{late['empty']:.1f} %",
        ),
    ]


def _source() -> Any:
    from flota.dashboard.live_job import LiveJob

    return LiveJob(FakeJob(NODES, RANKS), {}, bool)  # type: ignore[arg-type]


def _intervals(times: list[float]) -> list[float]:
    if len(times) < SECONDS:
        raise Broken(f"only {len(times)} frames in {SECONDS:.0f} s")
    return [after - before for before, after in pairwise(times)]


@contextmanager
def _chromium() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise Broken("playwright is missing") from None
    if not os.access(CHROMIUM, os.X_OK):
        raise Broken("Chromium is missing: apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
