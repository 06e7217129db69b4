"""What the events of one node say about its workers: which ran from when to when, in which round. Pure."""

from __future__ import annotations

from flota.job.roles import TRAINER
from flota.ledger.page import NOTHING, PageTimes, times_from_dict
from flota.logs.parse_events import is_count, is_integer, is_number
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

SECOND = 1_000_000  # times are whole microseconds, so that sums are exact


class WorkerRun(NamedTuple):
    """One process of a worker. `pages`: what its page said, the last one at its exit. `ended`: None while it runs."""

    role: str
    rank: int
    round: int
    started: int
    ended: int | None = None
    code: int = 0
    asked_to_stop: bool = False
    ignored: bool = False  # its failure does not fail the job
    pages: tuple[PageTimes, ...] = ()

    @property
    def page(self) -> PageTimes:
        return self.pages[-1] if self.pages else NOTHING

    @property
    def failed(self) -> bool:
        return self.code != 0 and not self.asked_to_stop and not self.ignored


class RoundTimes(NamedTuple):
    """A round on this node. Times are 0 if it did not happen. `waiting`: for nodes, after the round. `spare`: from when
    the node waited as a spare, after the round. `called`: until when it did so, before the round."""

    started: int
    workers: int = 0  # of the whole job; 0: unknown
    several: bool = False  # nodes
    stopping: int = 0  # the workers were asked to stop
    hang: int = 0  # a hang was found
    quiet: int = 0  # since then the job had been silent
    waiting: int = 0
    spare: int = 0
    called: int = 0


class NodeTimes(NamedTuple):
    """One node of a job, from its start to its end or to what is known last."""

    node: str
    began: int
    ended: int
    state: str  # ENDED, RUNNING or KILLED
    rounds: dict[int, RoundTimes]
    runs: tuple[WorkerRun, ...]
    imports: tuple[tuple[int, int], ...] = ()  # from when to when a parked interpreter imported modules
    reasons: dict[int, str] = {}  # noqa: RUF012  of restarts, by the round that ended
    ended_by: str = ""  # for example `stopped after --timeout 8h`; empty if the report says nothing

    @property
    def several(self) -> bool:
        return any(one.several for one in self.rounds.values())


ENDED, RUNNING, KILLED = "ended", "running", "killed"


def read_node(events: list[Json], *, now: float | None = None) -> NodeTimes | None:
    """Read the events of one node in one job. `now`: the monotonic time, if it is still running. Skips events that are
    damaged or contradict earlier ones. None: nothing can be said."""
    reader = _Reader()
    for event in sorted((one for one in events if is_number(one.get("monotonic"))), key=lambda one: one["monotonic"]):
        reader.read(event)
    if not reader.times:
        return None
    state = ENDED if reader.ended else RUNNING if now is not None else KILLED
    began = min(reader.began or reader.times[0], reader.times[0])
    ended = max(reader.times[-1], to_microseconds(now) if state == RUNNING and now is not None else 0)
    runs = tuple(run._replace(pages=tuple(reader.pages.get(key, ()))) for key, run in reader.runs.items())
    more = reader.rounds, runs, tuple(reader.imports), reader.reasons, reader.ended_by
    return NodeTimes(reader.node, began, ended, state, *more)


class _Reader:
    def __init__(self) -> None:
        self.node = ""
        self.times: list[int] = []
        self.began = 0
        self.ended = False
        self.round = 0
        self.rounds: dict[int, RoundTimes] = {}
        self.runs: dict[tuple[int, str, int], WorkerRun] = {}
        self.pages: dict[tuple[int, str, int], list[PageTimes]] = {}
        self.imports: list[tuple[int, int]] = []
        self.reasons: dict[int, str] = {}
        self.ended_by = ""

    def read(self, event: Json) -> None:
        at = to_microseconds(event["monotonic"])
        self.times.append(at)
        self.node = self.node or str(event.get("node", ""))
        handler = getattr(self, f"_on_{event.get('event')}", None)
        if handler:
            handler(event, at)

    def _on_job_started(self, event: Json, at: int) -> None:
        self.began = _time(event.get("began"), at)

    def _on_round_started(self, event: Json, at: int) -> None:
        if is_count(event.get("round")):
            self.round = event["round"]
            workers = event.get("workers")
            called = _time(event["called_at"], at) if "called_at" in event else 0
            times = RoundTimes(at, workers if is_count(workers) else 0, "nodes" in event, called=called)
            self.rounds[self.round] = times

    def _on_stopping_workers(self, _: Json, at: int) -> None:
        known = self.rounds.get(self.round)
        if known and not known.stopping:
            self.rounds[self.round] = known._replace(stopping=at)

    def _on_waiting_for_nodes(self, _: Json, at: int) -> None:
        known = self.rounds.get(self.round)
        if known and not known.waiting:
            self.rounds[self.round] = known._replace(waiting=at)

    def _on_waiting_as_spare(self, _: Json, at: int) -> None:
        known = self.rounds.get(self.round)
        if known and not known.spare:
            self.rounds[self.round] = known._replace(spare=at)

    def _on_hang_found(self, event: Json, at: int) -> None:
        known = self.rounds.get(self.round)
        if known and not known.hang:
            seconds = event.get("quiet_seconds")
            quiet = at - to_microseconds(seconds) if is_number(seconds) and seconds > 0 else 0
            self.rounds[self.round] = known._replace(hang=at, quiet=quiet)

    def _on_worker_started(self, event: Json, at: int) -> None:
        key = self._key(event)
        if key and key not in self.runs:
            self.runs[key] = WorkerRun(key[1], key[2], key[0], _time(event.get("at"), at))
        if is_number(event.get("import_seconds")):
            imported = _time(event.get("imported_at"), at)
            self.imports.append((imported - max(0, to_microseconds(event["import_seconds"])), imported))

    def _on_start_failed(self, event: Json, at: int) -> None:
        key = self._key(event)
        if key and key not in self.runs:
            self.runs[key] = WorkerRun(key[1], key[2], key[0], at, at, 1)

    def _on_worker_exited(self, event: Json, at: int) -> None:
        key = self._key(event)
        run = self.runs.get(key) if key else None
        if key and run and run.ended is None and is_integer(event.get("code")):
            self._add_page(key, event.get("times"))
            asked, ignored = event.get("asked_to_stop") is True, event.get("ignored") is True
            ended = max(run.started, _time(event.get("at"), at))
            self.runs[key] = run._replace(ended=ended, code=event["code"], asked_to_stop=asked, ignored=ignored)

    def _on_progress(self, event: Json, _: int) -> None:
        ranks = event.get("ranks")
        for row in ranks if isinstance(ranks, list) else ():
            key = self._key(row) if isinstance(row, dict) else None
            if key and key in self.runs and self.runs[key].ended is None:
                self._add_page(key, row)

    def _on_job_ended(self, event: Json, _: int) -> None:
        self.ended = True
        report = event.get("report")
        if not isinstance(report, dict):
            return
        self.ended_by = str(report.get("reason") or "")
        restarts = report.get("restarts")
        for one in restarts if isinstance(restarts, list) else ():
            if isinstance(one, dict) and is_count(one.get("round")):
                self.reasons[one["round"]] = str(one.get("reason", ""))

    def _add_page(self, key: tuple[int, str, int], data: object) -> None:
        if isinstance(data, dict):
            self.pages.setdefault(key, []).append(times_from_dict(data))

    def _key(self, event: Json) -> tuple[int, str, int] | None:
        rank = event.get("rank")
        return (self.round, str(event.get("role", TRAINER)), rank) if is_count(rank) else None


def to_microseconds(seconds: float) -> int:
    return round(seconds * SECOND)


def _time(value: object, otherwise: int) -> int:
    """A time in an event, which is not later than the event itself."""
    return min(to_microseconds(value), otherwise) if is_number(value) and value > 0 else otherwise
