"""Reads the step times of this node's ranks, and reports slow ranks on the console."""

from __future__ import annotations

from flota.host.heartbeat_page import read_page
from flota.job.report import NO_STEP
from flota.job.roles import label
from flota.stragglers.detector import PERIOD, SlowRank, StepTime, is_step_time, step_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from flota.host.heartbeat_page import Heartbeat
    from flota.run.console import Console
    from flota.run.start import Started

NO_STEPS_PERIOD = 60.0  # seconds between checks while no rank reports steps
CHANNEL = b"FLOTA_CHANNEL="


class StepTimes:
    """For one round. `deadline`: when to read next."""

    def __init__(self, started: Started, now: float) -> None:
        self.deadline = now + PERIOD
        self._started = started

    def read(self, workers: Iterable[int], now: float) -> tuple[StepTime, ...]:
        """The step times of the ranks that report steps."""
        own = [(self._started.plans[number].worker, self._started.channel.read(number)) for number in workers]
        rows = (step_time(worker.rank, worker.name, beat)._replace(step=NO_STEP) for worker, beat in own)
        known = tuple(filter(is_step_time, rows))
        self.deadline = now + (PERIOD if known else NO_STEPS_PERIOD)
        return known


def report_changes(console: Console, before: tuple[SlowRank, ...], slow: tuple[SlowRank, ...]) -> None:
    """Report each slow rank once, and again when it has recovered."""
    were, are = ({(row.role, row.rank): row for row in rows} for rows in (before, slow))
    for who, row in (were | are).items():
        if (who in were) == (who in are):
            continue
        facts = {"factor": row.factor} if who in are else {}
        console.event("straggler", role=row.role, rank=row.rank, host=row.host, **facts, recovered=who in were)
        name = f"{label(row.role, row.rank)} on {row.host}"
        if who in are:
            words = f"its steps take {row.factor:.1f} times as long as those of the other ranks"
            console.say("WARNING", f"{name} is slow: {words}")
        else:
            console.say("INFO", f"{name} is as fast as the other ranks again")


def heartbeat_of(pid: int) -> Heartbeat:
    """The heartbeat of a worker of another process: its environment names the shared memory."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        variables = []
    path = next((one[len(CHANNEL) :] for one in variables if one.startswith(CHANNEL)), b"")
    return read_page(path.decode(errors="surrogateescape"))
