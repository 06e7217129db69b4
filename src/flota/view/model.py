"""What a view shows: rows of ranks and facts about the job, from successive answers of its nodes. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median

from msgspec import Struct

from flota.control.status import RUNNING, JobStatus, RankStatus, RestartStatus
from flota.job.report import NO_STEP
from flota.job.roles import TRAINER
from flota.run.progress import StepPace, seconds_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.control.client import JobAnswer

NO_ANSWER = "no answer"  # the state of a rank whose node does not answer
SILENT = "silent"
SILENCE, SILENT_STEPS = 30.0, 10  # no heartbeat for this many seconds, and for so many steps
HISTORY = 240  # answers whose rates and numbers are kept
MOST_NUMBERS = 8  # names
NAN = float("nan")
BY_RANK, BY_STEP_TIME = "rank", "slowest first"
ORDERS = (BY_RANK, BY_STEP_TIME)

Key = tuple[str, int]  # role and rank


class RankRow(Struct, frozen=True):
    """One rank. `ratio`: its step time, divided by the median. `rate`: steps per second. `cpu`: percent of one CPU;
    None until there are two answers. `slow`: by how much its steps take longer, if flota has found it to be slow."""

    role: str
    rank: int
    host: str
    seat: int
    state: str
    step: int = NO_STEP
    step_seconds: float = 0.0
    ratio: float = 0.0
    rate: float = 0.0
    cpu: float | None = None
    memory: int = 0
    devices: tuple[str, ...] = ()
    device_use: float | None = None  # percent
    heartbeat: float | None = None
    exit_code: int | None = None
    slow: float = 0.0
    logs: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return self.role, self.rank


class Progress(Struct, frozen=True):
    """Of the whole job. `step`: that of the rank which is behind. `rate`: steps per second. `left`: seconds."""

    step: int = NO_STEP
    total: int = 0
    rate: float = 0.0
    left: float | None = None
    numbers: tuple[tuple[str, float], ...] = ()


class Past(Struct):
    """What is remembered of one worker."""

    pid: int
    at: float
    cpu: float
    pace: StepPace


class JobModel:
    """`update` with each answer; `rows`, `progress` and `history` are then up to date."""

    def __init__(self) -> None:
        self.job: JobStatus | None = None
        self.rows: tuple[RankRow, ...] = ()
        self.progress = Progress()
        self.missing: tuple[tuple[str, str], ...] = ()
        self.history: dict[str, deque[float]] = {}  # by the name of a number; the rate has the name ""
        self._past: dict[Key, Past] = {}
        self._pace = StepPace()

    def update(self, answer: JobAnswer, now: float) -> None:
        """`now`: monotonic seconds of the viewer."""
        slow = {(one.role, one.rank): one.factor for one in answer.job.slow}
        times = [rank.step_seconds for node in answer.nodes for rank in node.ranks if rank.step_seconds > 0]
        usual = median(times) if times else 0.0
        past: dict[Key, Past] = {}
        rows = [
            self._row(rank, node.host, node.seat, usual, slow, now, past)
            for node in answer.nodes
            for rank in node.ranks
        ]
        self._past = past
        silent = self._without_answer(answer, {row.key for row in rows})
        self.rows = tuple(sorted([*rows, *silent], key=lambda row: (row.role != TRAINER, row.role, row.rank)))
        self.job, self.missing = answer.job, answer.missing
        self.progress = self._progress(answer, now)
        self._remember()

    def _row(
        self,
        rank: RankStatus,
        host: str,
        seat: int,
        usual: float,
        slow: dict[Key, float],
        now: float,
        past: dict[Key, Past],
    ) -> RankRow:
        key = rank.role, rank.rank
        before = self._past.get(key)
        if before is None or before.pid != rank.pid:
            before = None
        pace = before.pace if before else StepPace()
        pace.add([(now - (rank.heartbeat or 0.0), rank.step)])
        past[key] = Past(rank.pid, now, rank.cpu, pace)
        cpu = None
        if before and rank.state == RUNNING and now > before.at:
            cpu = max(0.0, 100 * (rank.cpu - before.cpu) / (now - before.at))
        return RankRow(
            *(rank.role, rank.rank, host, seat, _state(rank)),
            step=rank.step,
            step_seconds=rank.step_seconds,
            ratio=rank.step_seconds / usual if usual else 0.0,
            rate=_rate(pace, rank),
            cpu=cpu,
            memory=rank.memory,
            devices=rank.devices,
            device_use=rank.device_use,
            heartbeat=rank.heartbeat,
            exit_code=rank.exit_code,
            slow=slow.get(key, 0.0),
            logs=rank.logs,
        )

    def _without_answer(self, answer: JobAnswer, known: set[Key]) -> list[RankRow]:
        """The last known rows of nodes that do not answer now. Several nodes may have the same host name."""
        hosts, seats = {host for host, _ in answer.missing}, {node.seat for node in answer.nodes}
        return [
            RankRow(row.role, row.rank, row.host, row.seat, NO_ANSWER, row.step, devices=row.devices, logs=row.logs)
            for row in self.rows
            if row.host in hosts and row.seat not in seats and row.key not in known
        ]

    def _progress(self, answer: JobAnswer, now: float) -> Progress:
        rows = [row for row in self.rows if row.step != NO_STEP]
        if not rows:
            return Progress()
        role = rows[0].role  # trainers come first
        step = min(row.step for row in rows if row.role == role)
        self._pace.add((now - (row.heartbeat or 0.0), row.step) for row in rows if row.role == role)
        rates = [row.rate for row in rows if row.role == role and row.rate > 0]
        rate = (self._pace.per_second or median(rates)) if rates else 0.0
        ranks = [rank for node in answer.nodes for rank in node.ranks]
        total = max((rank.total for rank in ranks), default=0) or self.progress.total  # unknown after the end
        left = seconds_left(step, total, rate)
        numbers = next((rank.numbers for rank in sorted(ranks, key=lambda one: one.rank) if rank.numbers), {})
        values = [(name, NAN if value is None else value) for name, value in numbers.items()]
        return Progress(step, total, rate, left, tuple(values[:MOST_NUMBERS]))

    def _remember(self) -> None:
        for name, value in (("", self.progress.rate), *self.progress.numbers):
            if name in self.history or len(self.history) <= MOST_NUMBERS:
                self.history.setdefault(name, deque(maxlen=HISTORY)).append(value)

    @property
    def counts(self) -> dict[str, int]:
        """Ranks by state, the most frequent state first."""
        states = [row.state for row in self.rows]
        return dict(sorted(((state, states.count(state)) for state in set(states)), key=lambda one: (-one[1], one[0])))

    def shown(self, words: str, order: str) -> list[RankRow]:
        """The rows that match a search, in this order."""
        wanted = words.split()
        rows = [row for row in self.rows if all(matches(row, word) for word in wanted)]
        return sorted(rows, key=lambda row: -row.ratio) if order == BY_STEP_TIME else rows


def _state(rank: RankStatus) -> str:
    if rank.state != RUNNING or rank.heartbeat is None:
        return rank.state
    return SILENT if rank.heartbeat > max(SILENCE, SILENT_STEPS * rank.step_seconds) else rank.state


def _rate(pace: StepPace, rank: RankStatus) -> float:
    """Steps per second: measured or, until there was a second step, from the step time."""
    if rank.state != RUNNING:
        return 0.0
    return pace.per_second or (1 / rank.step_seconds if rank.step_seconds > 0 else 0.0)


def matches(row: RankRow, word: str) -> bool:
    """A number or a range such as `8-15` is about ranks; another word is a part of the host, the state or the role."""
    low, dash, high = word.partition("-")
    if low.isdecimal() and (high.isdecimal() or not dash):
        return int(low) <= row.rank <= int(high or low)
    return any(word.lower() in text.lower() for text in (row.host, row.state, row.role, "slow" if row.slow else ""))


class RoundSpan(Struct, frozen=True):
    """A round on the timeline: its share of the time, and why it ended; None: it is the last one."""

    round: int
    share: float
    end: RestartStatus | None = None


def rounds_of(job: JobStatus) -> list[RoundSpan]:
    """The rounds since the first that is known, with their shares of the job's time."""
    whole = max(job.now - job.began, 1e-6)
    spans, begin = [], job.began
    for restart in job.restarts:
        end = min(max(restart.at, begin), job.now)
        spans.append(RoundSpan(restart.round, (end - begin) / whole, restart))
        begin = end
    return [*spans, RoundSpan(job.round, (job.now - begin) / whole)]


def allot(shares: Iterable[float], width: int) -> list[int]:
    """Divide columns of the screen by shares, at least one each while there are enough."""
    parts = list(shares)[-max(1, width) :]
    whole = sum(parts) or 1.0
    free = max(0, width - len(parts))
    ends, total = [], 0.0
    for part in parts:
        total += part
        ends.append(round(free * total / whole))
    return [1 + end - begin for begin, end in zip([0, *ends], ends, strict=False)]
