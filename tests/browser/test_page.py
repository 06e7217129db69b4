"""The page in a real browser."""

from __future__ import annotations

import re
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from flota.dashboard.finished_job import FinishedJob
from tests.browser.conftest import serving
from tests.launching import wait_until

TIMES = "\N{MULTIPLICATION SIGN}"
EVIL = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


def text(page, selector):
    return page.inner_text(selector)


def until(page, condition):
    """Not `wait_for_function`, which the page's policy does not allow."""
    wait_until(lambda: page.evaluate(condition), condition)


def ready(page):
    page.wait_for_selector(".card")
    return page


def test_it_shows_the_job_and_keeps_the_token_out_of_the_address(serve, open_page):
    _, server = serve()

    page = ready(open_page(server.link))

    assert "token" not in page.url
    assert text(page, "#job") == "llama-7b" and text(page, "#state") == "running"
    assert "of 12,000" in text(page, "#cards") and "loss" in text(page, "#cards")
    page.wait_for_selector("#timeline .round")
    page.wait_for_selector(".chart canvas")
    until(page, "document.querySelectorAll('#log li').length > 5")
    assert "rank 7 exit code 1 on gpu01" in text(page, "#events")
    hosts = page.evaluate("[...document.querySelectorAll('#nodes tr')].map(row => row.innerText)")
    assert (
        "spare" in hosts[-1] and "Drain" not in hosts[-1] and "Drain" in hosts[0] and "1 spare" in text(page, "#cards")
    )
    page.reload()  # the cookie is enough
    ready(page)


def test_it_follows_the_job(serve, open_page):
    job, server = serve()
    page = ready(open_page(server.link))

    job.texts["job"] = "renamed"

    until(page, "document.querySelector('#job').textContent === 'renamed'")


def test_without_the_token_it_shows_nothing(serve, open_page):
    _, server = serve()

    page = open_page(server.link.partition("#")[0], expected="401")

    until(page, "document.querySelector('#notice').textContent.includes('token')")
    assert text(page, "#job") == "flota" and not page.query_selector(".card")


def test_a_wrong_token_is_said(serve, open_page):
    _, server = serve()

    page = open_page(f"{server.link}x", expected="401")

    until(page, "!document.querySelector('#notice').hidden")


def test_foreign_texts_stay_texts(serve, open_page):
    texts = {"job": EVIL, "host": f"a{{}}{EVIL}", "reason": EVIL, "line": EVIL, "number": EVIL, "stack": EVIL}
    _, server = serve(2, 4, texts)
    page = ready(open_page(server.link))
    until(page, "document.querySelectorAll('#log li').length > 5")
    page.wait_for_selector("#events li")
    page.click("#show-table")
    page.click(".virtual .row:not(.titles)")
    page.fill("#log-search", "img")
    page.wait_for_selector("#log mark")
    page.click("#take-stacks")
    page.wait_for_selector("#stack-groups li")
    page.click("#nodes button")
    page.wait_for_selector("#confirm[open]")
    page.click("#confirm-no")

    assert text(page, "#job") == EVIL and EVIL in text(page, "#log") and EVIL in text(page, "#events")
    assert EVIL in text(page, "#curves") and EVIL in text(page, "#stack-groups")
    assert EVIL in text(page, "#nodes") and EVIL in text(page, "#table-view") and EVIL in page.title()
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0


def test_the_policy_stops_a_script_that_gets_into_the_page(serve, open_page):
    _, server = serve()
    page = ready(open_page(server.link, expected="Content Security Policy"))

    page.evaluate("""() => {
        const script = document.createElement('script');
        script.textContent = 'window.hacked = 1';
        document.body.append(script);
        document.body.insertAdjacentHTML('beforeend', '<img src="data:," onerror="window.hacked=2">');
    }""")
    refused = page.evaluate("fetch('http://127.0.0.1:1/').then(() => false, () => true)")

    assert page.evaluate("window.hacked") is None and refused


class EvilPage(BaseHTTPRequestHandler):
    def __init__(self, victim, *args):
        self.victim = victim
        super().__init__(*args)

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(
            f'<form method=post enctype=text/plain action="{self.victim}api/stop"><input name=x></form>'.encode()
        )

    def log_message(self, *_):
        pass


def test_another_site_can_neither_act_nor_read(serve, open_page):
    job, server = serve()
    page = ready(open_page(server.link, expected=""))
    victim = page.url
    other = HTTPServer(("127.0.0.1", 0), partial(EvilPage, victim))
    threading.Thread(target=other.serve_forever, args=(0.05,), daemon=True).start()
    ask = f"(options) => fetch('{victim}api/stop', options).then((answer) => answer.type, () => 'failed')"

    page.goto(f"http://127.0.0.1:{other.server_port}/")  # the same host, so that cookies are sent
    simple = page.evaluate(ask, {"method": "POST", "mode": "no-cors", "credentials": "include", "body": "{}"})
    headed = page.evaluate(ask, {"method": "POST", "credentials": "include", "headers": {"X-Flota": "1"}, "body": "{}"})
    read = page.evaluate(f"fetch('{victim}api/curves', {{credentials: 'include'}}).then(() => 'read', () => 'failed')")
    framed = page.evaluate(
        f"fetch('{victim}api/tails', {{credentials: 'include', mode: 'no-cors'}}).then((one) => one.type, () => 'failed')"
    )
    with page.expect_navigation():
        page.evaluate("document.forms[0].submit()")

    assert (simple, headed, read, framed) == ("failed", "failed", "failed", "failed")
    assert "does not come from the page" in page.content() or "does not have the token" in page.content()
    assert job.acts == []
    other.shutdown()
    other.server_close()


@pytest.mark.parametrize(("button", "verb"), [("#stop", "stop"), ("#restart", "restart"), ("#nodes button", "leave")])
def test_an_action_is_confirmed_first(serve, open_page, button, verb):
    job, server = serve()
    page = ready(open_page(server.link))

    page.click(button)
    page.click("#confirm-no")
    assert job.acts == []
    page.click(button)
    page.click("#confirm-yes")

    wait_until(lambda: job.acts == [verb], "the action")


def test_ranks_are_selected_with_the_keyboard(serve, open_page):
    _, server = serve()
    page = ready(open_page(server.link))

    page.focus("#map")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")

    assert text(page, "#rank-detail").startswith("rank 9 on gpu02 · running")
    assert page.input_value("#log-rank") == "trainer 9"
    assert "64 ranks" in page.get_attribute("#map", "aria-label")


def test_rows_of_the_table_are_selected_with_the_keyboard(serve, open_page):
    _, server = serve()
    page = ready(open_page(server.link))
    page.click("#show-table")
    page.focus("#table-view")

    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert text(page, "#rank-detail").startswith("rank 1 on gpu01 · running")
    page.keyboard.press("End")

    assert text(page, "#rank-detail").startswith("rank 63 on gpu08 · running")
    assert page.input_value("#log-rank") == "trainer 63"
    chosen = page.get_attribute("#table-view", "aria-activedescendant")
    assert page.get_attribute(f"#{chosen}", "aria-selected") == "true"
    row, view = page.locator(f"#{chosen}").bounding_box(), page.locator("#table-view").bounding_box()
    assert view["y"] < row["y"] and row["y"] + row["height"] <= view["y"] + view["height"] + 1
    page.keyboard.press("Home")
    assert text(page, "#rank-detail").startswith("rank 0 on gpu01")


def test_the_heat_map_names_the_rank_under_the_mouse(serve, open_page):
    _, server = serve()
    page = ready(open_page(server.link))

    page.hover("#map", position={"x": 10, "y": 30})

    page.wait_for_selector("#tip:not([hidden])")
    assert text(page, "#tip").startswith("rank 0 on gpu01\nrunning\nstep ")


def test_a_table_of_a_thousand_ranks_has_few_rows_at_a_time(serve, open_page):
    _, server = serve(128, 1024)
    page = ready(open_page(server.link))

    page.click("#show-table")
    page.click("#table-view .titles button:text('step time')")

    slowest = [text(page, f"#table-view [aria-rowindex='{row}']").split("\n")[0] for row in (2, 3)]
    assert set(slowest) == {"rank 3", "rank 513"}
    assert page.get_attribute("#table-view", "aria-rowcount") == "1025"
    assert (
        page.evaluate("document.querySelectorAll('*').length") < 4000
    )  # most of them: 128 nodes, 1,024 choices of a log
    assert page.evaluate("document.querySelectorAll('.virtual .row').length") < 40


def test_equal_lines_of_all_ranks_are_folded_and_found(serve, open_page):
    _, server = serve()
    page = ready(open_page(server.link))
    until(page, "document.querySelectorAll('#log li').length > 5")

    assert f"0-63 {TIMES}64" in text(page, "#log")
    page.fill("#log-search", "/waits? for/")

    until(page, "document.querySelectorAll('#log li').length === 1")
    assert text(page, "#log mark") == "waits for" and f"3, … {TIMES}2" in text(page, "#log")


def test_light_and_dark_follow_the_system_until_the_reader_chooses(serve, open_page):
    _, server = serve()
    page = ready(open_page(server.link, scheme="dark"))
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)

    page.click("#theme")
    light = page.evaluate(colour)
    page.reload()

    assert dark != light and page.evaluate(colour) == light


@pytest.mark.parametrize(("nodes", "ranks"), [(1, 2), (8, 64), (128, 1024)])
def test_it_fits_on_a_phone(serve, open_page, nodes, ranks):
    _, server = serve(nodes, ranks)
    page = ready(open_page(server.link, width=390, height=844))
    page.wait_for_selector(".chart canvas")

    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_everything_that_can_be_used_has_a_name_for_screen_readers(serve, open_page):
    _, server = serve()
    page = ready(open_page(server.link))
    page.wait_for_selector(".chart canvas")

    nameless = page.evaluate("""() => [...document.querySelectorAll('button, input, select, [tabindex="0"], canvas, [role]')].filter((one) =>
        !one.closest('[hidden], dialog') && !['row', 'cell', 'gridcell', 'columnheader', 'rowgroup', 'status'].includes(one.getAttribute('role')) &&
        !(one.getAttribute('aria-label') || one.getAttribute('aria-labelledby') || one.textContent.trim() || one.labels?.length)).map((one) => one.outerHTML)""")
    assert nameless == []


def test_a_finished_job_as_one_file_works_without_a_server(flota, open_page):
    script = flota.directory / "evil.py"
    script.write_text(f"import sys\nprint({EVIL + '</script>'!r})\nsys.exit(3)\n")
    flota.run("--job_id", "<script>window.hacked=1</script>", script)
    ended = flota.run("report", "--html", "report.html")
    assert (ended.returncode, ended.stdout) == (0, "wrote report.html\n")

    page = ready(open_page(f"file://{flota.directory}/report.html", expected="Content Security Policy"))
    page.wait_for_selector("#timeline .round")
    until(page, "document.querySelectorAll('#log li').length > 1")

    assert text(page, "#state") == "failed, exit code 3" and EVIL in text(page, "#log")
    assert page.evaluate("window.hacked") is None
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=\"data:,\" onerror=\"window.hacked=2\">')")
    assert page.evaluate("window.hacked") is None


def test_a_finished_job_has_the_same_page_with_its_report(flota, open_page):
    flota.run("--nproc_per_node", 3, "--max_restart", 1, "fails.py", env={"FAIL_HOW": "7"})

    with serving(FinishedJob([str(flota.directory / "log")])) as server:
        page = ready(open_page(server.link))
        page.wait_for_selector("#timeline .round")
        until(page, "document.querySelectorAll('#log li').length > 1")

        assert text(page, "#state") == "failed, exit code 7"
        assert re.search(r"rank 1 failed first: exit code 7", text(page, "#report"))
        assert page.is_hidden("#stop") and page.is_hidden("#stacks-panel")


def test_texts_of_a_failed_job_stay_texts(flota, open_page):
    script = flota.directory / "evil.py"
    script.write_text(
        f"import flota\nEVIL = {EVIL!r}\n"
        "for step in range(9):\n    flota.heartbeat(step, **{EVIL: 1.0})\n"
        "with flota.phase(EVIL):\n    import time; time.sleep(0.5)\n"
        "flota.heartbeat(9, **{EVIL: 1.0})\nraise RuntimeError(EVIL)\n"
    )
    flota.run(script)

    with serving(FinishedJob([str(flota.directory / "log")])) as server:
        page = ready(open_page(server.link))
        page.wait_for_selector(".chart canvas")

        assert EVIL in text(page, "#report")
        assert EVIL[:60] in text(page, "#curves") and EVIL[:30] in text(page, "#ledger")
        assert page.evaluate("window.hacked") is None
        assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0


def test_each_stream_with_a_file_of_its_own_can_be_read(flota, open_page):
    script = flota.directory / "both.py"
    script.write_text("import sys\nprint('to stdout')\nprint('to stderr', file=sys.stderr)\n")
    flota.run("-r", "3", script)

    with serving(FinishedJob([str(flota.directory / "log")])) as server:
        page = ready(open_page(server.link))
        until(page, "document.querySelectorAll('#log li').length > 1")
        assert "to stdout" in text(page, "#log") and "to stderr" in text(page, "#log")
        for name, words in (("out", "to stdout"), ("err", "to stderr")):
            page.select_option("#log-rank", label=f"rank 0, {name}")
            until(page, f"document.querySelector('#log').textContent.includes('{words}')")
