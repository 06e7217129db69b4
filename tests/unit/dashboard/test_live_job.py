"""What the page does when the node that it asks is gone. The job exists only as answers."""

from __future__ import annotations

import pytest

from flota.dashboard.live_job import LiveJob
from flota.errors import CannotAsk
from tests.browser.fake_job import FakeJob


class Job(FakeJob):
    """A job whose first node can be gone. `others`: whether another one answers."""

    def __init__(self, *, others: bool) -> None:
        super().__init__(2, 4)
        self.is_gone, self.others = False, others

    def status(self):
        if self.is_gone:
            raise CannotAsk("gpu01", "connection refused")
        return super().status()

    def use_another_entry(self) -> bool:
        self.is_gone = self.is_gone and not self.others
        return self.others


@pytest.fixture
def watch():
    """A page of a job whose node is gone, after it has noticed: the page and the sources that replace it."""

    def start(job: Job) -> tuple[LiveJob, list[object]]:
        ended: list[object] = []
        page = LiveJob(job, {}, ended.append)
        job.is_gone = True
        page._answered_at -= 60.0
        page._ask(reads_ledger=False)
        return page, ended

    return start


def test_the_page_goes_on_through_another_node(watch):
    page, ended = watch(Job(others=True))
    page._ask(reads_ledger=False)

    assert ended == []
    assert (page.newest()["live"], page.newest()["job"]["state"], page.newest()["job"]["message"]) == (
        True,
        "running",
        "",
    )


def test_a_job_without_any_node_has_ended(watch):
    page, ended = watch(Job(others=False))

    assert ended == [None]
    assert (page.newest()["live"], page.newest()["job"]["state"]) == (False, "ended")


def test_stacks_of_a_single_node_of_another_machine_are_asked_of_that_node():
    page = LiveJob(FakeJob(1, 2), {}, bool)

    assert page.stacks()[-1] == "if this is a hang: rank 12 blocks the others"
