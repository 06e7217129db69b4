"""Writes docs/pictures/page-*.png: the page of a job with 64 ranks in Chromium, as tests/browser imagines it."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.browser.conftest import CHROMIUM, FLAGS, serving
from tests.browser.fake_job import FakeJob

from flota.dashboard.live_job import LiveJob

PICTURES = Path(__file__).parent / "pictures"


def main() -> None:
    source = LiveJob(FakeJob(8, 64), {}, bool)  # type: ignore[arg-type]
    with serving(source) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for scheme in ("light", "dark"):
            page = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme).new_page()
            page.goto(server.link)
            page.wait_for_selector(".chart canvas")
            page.wait_for_timeout(1500)
            page.screenshot(path=PICTURES / f"page-{scheme}.png")
            print(f"wrote docs/pictures/page-{scheme}.png")


if __name__ == "__main__":
    main()
