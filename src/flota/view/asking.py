"""Asks the nodes of a job again and again, in a thread, so that the screen never waits for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread

from msgspec import Struct

from flota.control.client import JobAnswer, JobClient
from flota.control.status import ENDED, JobStatus
from flota.errors import CannotAsk
from flota.job.printable import printable
from flota.job.report import ending_in_brief
from flota.logs.find_runs import read_report

INTERVAL = 1.0  # seconds between questions
LEAST_PAUSE = 0.1  # seconds, also if nodes answer late


class News(Struct, frozen=True):
    """An answer of the job, or why there is none. `at`: monotonic seconds. `ending`: how the job has ended."""

    at: float
    answer: JobAnswer | None = None
    why: str = ""
    ending: str = ""


class StatusThread(Thread):
    """Asks all nodes once per second, until the job has ended."""

    def __init__(self, job: JobClient, deliver: Callable[[News], object]) -> None:
        super().__init__(daemon=True)
        self._job, self._deliver = job, deliver
        self._last: JobStatus | None = None
        self._stopped = Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            began = time.monotonic()
            news = self._ask()
            self._deliver(news)
            if news.ending:
                return
            self._stopped.wait(max(LEAST_PAUSE, began + INTERVAL - time.monotonic()))

    def _ask(self) -> News:
        try:
            answer = self._job.status()
        except CannotAsk as error:
            if self._job.use_another_entry():
                return self._ask()
            ending = find_ending(self._last) if self._last and self._job.entry.pid else ""
            return News(time.monotonic(), why=error.why, ending=ending)
        self._last = answer.job
        has_ended = answer.job.state == ENDED
        return News(time.monotonic(), answer, ending=printable(answer.job.message) or ENDED if has_ended else "")

    def stop(self) -> None:
        self._stopped.set()


def find_ending(job: JobStatus) -> str:
    """From the report in the job's log directory, in words; empty while there is no final one of this job."""
    report = read_report(f"{job.log_dir}/report.json")
    is_final = report and report.final and report.job_id == job.job_id and report.began + report.seconds >= job.began
    return printable(ending_in_brief(report)) if report and is_final else ""
