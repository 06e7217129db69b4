"""The view on terminals of several sizes, with jobs that do not exist."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot

from flota.control.client import JobAnswer
from flota.control.status import ENDED, WAITING
from flota.view.app import JobView
from flota.view.asking import News

from .answers import LINES, FakeJob, answer

SMALL, LARGE = (80, 24), (200, 50)
DEADLINE = 20.0

Steps = Callable[[JobView, Pilot[None]], Awaitable[None]]


def run(job: FakeJob, steps: Steps, size: tuple[int, int] = SMALL, **options: bool) -> None:
    async def in_view() -> None:
        app = JobView(job, **options)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.model.job is not None)
            await steps(app, pilot)

    asyncio.run(in_view())


async def until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < give_up, screen(pilot.app)
        await pilot.pause()


def screen(app: JobView) -> str:
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "200x50"])
@pytest.mark.parametrize("ranks", [2, 64, 1024])
def test_every_rank_can_be_reached(ranks, size):
    async def steps(app, pilot):
        await until(pilot, lambda: "gpu01" in screen(app) and "log of trainer 0" in "".join(app.log_pane.lines))
        first = screen(app).splitlines()
        assert [len(first), first[0].split()[:4]] == [size[1], ["llama", "running", str(ranks), "ranks"]]
        assert "step 120/5,000" in first[1] and "rank 1 FileNotFoundError at 0m20s" in first[2]
        assert LINES[-1] in screen(app) and "? help" in first[-1]

        await pilot.press("end")
        await until(pilot, lambda: f"log of trainer {ranks - 1}" in "".join(app.log_pane.lines))
        assert app.table.chosen.rank == ranks - 1
        assert f" {ranks - 1} gpu" in screen(app)

        await pilot.press("h")
        await until(pilot, lambda: "median" in screen(app))
        assert f"rank {ranks - 1} gpu" in screen(app)

    run(FakeJob(answer(ranks)), steps, size)


def test_a_search_leaves_the_ranks_that_match():
    async def steps(app, pilot):
        await pilot.press(*"/gpu02")
        await until(pilot, lambda: len(app.table.rows) == 8)
        await pilot.press("enter", "down")
        assert app.table.chosen.rank == 9

        await pilot.press("escape")
        await until(pilot, lambda: len(app.table.rows) == 64)
        assert app.table.chosen.rank == 9

    run(FakeJob(answer(64)), steps)


def test_what_acts_on_the_job_is_confirmed_first():
    job = FakeJob(answer(16))

    async def steps(app, pilot):
        await pilot.press("r")
        await until(pilot, lambda: "restart all workers?" in screen(app))
        await pilot.press("x")  # any key but y; it does not stop the job either
        await until(pilot, lambda: "? help" in screen(app))
        await pilot.press("end", "d")
        await until(pilot, lambda: "let node 1 (gpu02) leave the job?" in screen(app))
        await pilot.press("y")
        await until(pilot, lambda: "leave: done" in screen(app))

    run(job, steps)
    assert job.acted == ["leave"]


def test_pages_are_left_with_q_and_the_view_as_well():
    async def steps(app, pilot):
        for key, words in (("?", "heat map"), ("t", "ended: rank 1 FileNotFoundError"), ("s", "wait in all_reduce")):
            await pilot.press(key)
            await until(pilot, lambda words=words: words in screen(app))
            await pilot.press("q")
            await until(pilot, lambda: "STATE" in screen(app))
        await until(pilot, lambda: app.log_pane.lines)
        await pilot.press("l", "home")
        await until(pilot, lambda: LINES[5] in screen(app))
        await pilot.press("q", "q")
        assert app._exit

    run(FakeJob(answer(2)), steps)


def test_a_node_that_does_not_answer_is_named():
    async def steps(app, pilot):
        app.take(News(1e9, answer(16, 61, missing=(("gpu02", "no route to host"),))))
        await until(pilot, lambda: "no answer from gpu02 (no route to host)" in screen(app))
        assert "8 no answer, 8 running" in screen(app)

    run(FakeJob(answer(16)), steps)


def test_a_job_that_stops_answering_is_asked_again():
    job = FakeJob(answer(2, 60), None, answer(2, 62))

    async def steps(app, pilot):
        await until(pilot, lambda: "connection refused; asking again" in screen(app))
        await until(pilot, lambda: "step 124/5,000" in screen(app))
        assert "asking again" not in screen(app)

    run(job, steps)


def test_an_ended_job_stays_on_the_screen_with_its_verdict():
    ended = answer(2, 61, state=ENDED, message="failed: rank 1 SIGKILL, exit code 137")
    job = FakeJob(answer(2, 60), ended)

    async def steps(app, pilot):
        await until(pilot, lambda: "ended: failed: rank 1 SIGKILL, exit code 137" in screen(app))
        app._status.join(DEADLINE)
        assert not app._status.is_alive()

    run(job, steps)
    assert job.asked == 2


def test_a_job_that_waits_for_nodes_says_so():
    waiting = JobAnswer(answer(2, state=WAITING, nodes=(), message="waiting for nodes: 1 of 2 joined").job, ())

    async def steps(app, pilot):
        await until(pilot, lambda: "waiting for nodes: 1 of 2 joined" in screen(app))

    run(FakeJob(waiting), steps)


def test_the_screen_can_be_resized_at_will():
    async def steps(app, pilot):
        for width, height in ((200, 50), (20, 5), (1, 1), (80, 10), (300, 100)):
            await pilot.resize_terminal(width, height)
            await pilot.press("h")
            await until(pilot, lambda width=width: app.header.size.width == width)
            assert len(screen(app).splitlines()) <= height

    run(FakeJob(answer(64)), steps)


def test_without_colours_and_unicode_slow_ranks_are_still_seen(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    async def steps(app, pilot):
        await until(pilot, lambda: "slow 2.0x" in screen(app))
        await pilot.press("h")
        await until(pilot, lambda: "@....#.." in screen(app).replace(" ", ""))
        assert screen(app).isascii()
        colours = {
            segment.style.color
            for strip in app.screen._compositor.render_strips()
            for segment in strip
            if segment.style
        }
        assert {colour.name for colour in colours if colour} <= {"default"}

    run(FakeJob(answer(8)), steps, ascii_only=True)


def test_lines_that_have_not_changed_are_not_drawn_again():
    async def steps(app, pilot):
        await until(pilot, lambda: "gpu01" in screen(app))
        drawn = []
        app.table.refresh = lambda *regions, **_: drawn.extend(region.y for region in regions)

        app.table.move(1)

        assert drawn == [0, 1, 2]  # how many there are, the last and the next chosen rank

    run(FakeJob(answer(64)), steps)
