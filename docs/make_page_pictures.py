"""Writes docs/pictures/page-*.png: the page of a job with 64 ranks in Chromium, as tests/browser imagines it."""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.browser.conftest import CHROMIUM, FLAGS, serving
from tests.browser.fake_job import AGE, FakeJob

from flota.dashboard.live_job import LiveJob

PICTURES = Path(__file__).parent / "pictures"
POINTS = 300


def main() -> None:
    job = FakeJob(8, 64)
    source = LiveJob(job, {}, bool)  # type: ignore[arg-type]
    source.history.points[:] = _past(job.began)
    with serving(source) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for scheme in ("light", "dark"):
            page = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme).new_page()
            page.goto(server.link)
            page.wait_for_selector(".chart canvas")
            page.wait_for_timeout(1500)
            page.screenshot(path=PICTURES / f"page-{scheme}.png")
            print(f"wrote docs/pictures/page-{scheme}.png")


def _past(began: float) -> list[tuple[float, dict[str, float]]]:
    chance, points = random.Random(1), []  # noqa: S311  only a picture
    for number in range(POINTS):
        at, noise = AGE * number / POINTS, chance.random()
        loss = 1.8 + 6 * math.exp(-at / 1140) + 0.05 * noise
        values = {"seconds": 0.43 + 0.01 * noise, "fastest": 0.4, "slowest": 0.52 + 0.1 * noise, "step": at / 0.76}
        points.append((began + at, {**values, "number:loss": loss, "number:grad_norm": 0.8 + 0.2 * noise}))
    return points


if __name__ == "__main__":
    main()
