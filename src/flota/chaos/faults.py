"""`--chaos`: which faults are injected into a job, and when, from the user's words and random numbers. Pure."""

from __future__ import annotations

from math import log1p

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from flota.job.spec import JobSpec

KILL, HANG, PAUSE, SHEPHERD, NODE = "kill", "hang", "pause", "shepherd", "node"
KINDS = (KILL, HANG, PAUSE, SHEPHERD, NODE)
SEED = "seed"
SHORTEST = 0.1  # seconds


class Faults(NamedTuple):
    """`intervals`: seconds between two faults of a kind in the whole job, on average. `seed`: of the random numbers."""

    intervals: tuple[tuple[str, float], ...]
    seed: int | None = None

    def has(self, kind: str) -> bool:
        return any(name == kind for name, _ in self.intervals)


class BadFault(ValueError):
    """`part`: of the user's words. `expected`: what should be there."""

    def __init__(self, part: str, expected: str) -> None:
        super().__init__(part, expected)
        self.part, self.expected = part, expected


def parse_faults(words: str, read_duration: Callable[[str], float]) -> Faults:
    """`kill=60s,node=10m,seed=7`. Raises BadFault."""
    intervals: dict[str, float] = {}
    seed: int | None = None
    for part in map(str.strip, words.split(",")):
        kind, _, text = part.partition("=")
        if kind in intervals or (kind == SEED and seed is not None):
            raise BadFault(part, f"{kind} once")
        if kind == SEED:
            seed = _read_seed(part, text)
        elif kind in KINDS:
            intervals[kind] = _read_interval(part, text, read_duration)
        else:
            raise BadFault(part, f"KIND=INTERVAL, where KIND is one of {', '.join(KINDS)}")
    if not intervals:
        raise BadFault(words, f"at least one of {', '.join(KINDS)} with an interval")
    return Faults(tuple(intervals.items()), seed)


def _read_seed(part: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise BadFault(part, f"a whole number after {SEED}=")
    return int(text)


def _read_interval(part: str, text: str, read_duration: Callable[[str], float]) -> float:
    try:
        seconds = read_duration(text)
    except ValueError:
        seconds = 0.0
    if seconds < SHORTEST:
        raise BadFault(part, f"an interval of {SHORTEST}s or more after the kind")
    return seconds


def find_missing_flag(spec: JobSpec) -> tuple[str, str] | None:
    """A fault that the job cannot survive as it is, and the flag that it needs."""
    faults, nodes = spec.chaos, spec.nodes
    if faults is None:
        return None
    if not spec.restarts.enabled and not (nodes and nodes.elastic):
        return "--chaos", "--max_restart"
    if faults.has(HANG) and spec.hang_timeout is None:
        return f"--chaos {HANG}=…", "--hang_timeout"
    if faults.has(NODE) and nodes is None:
        return f"--chaos {NODE}=…", "--nnodes"
    return None


class FaultSchedule:
    """The faults of one node. `draw` returns random numbers from 0 to 1. Every node injects its share: with several
    nodes the intervals on each of them are longer. They are exponential, so faults also come in quick succession."""

    def __init__(self, faults: Faults, draw: Callable[[], float], now: float) -> None:
        self._intervals = dict(faults.intervals)
        self._draw = draw
        self._nodes = 1
        self._waits = {kind: self._next_wait() for kind in self._intervals}  # in intervals of the kind
        self._checked_at = now

    def _next_wait(self) -> float:
        return -log1p(-self._draw())

    def use_nodes(self, nodes: int, now: float) -> None:
        """The job has this many nodes from now on, and its workers run."""
        self._nodes, self._checked_at = max(1, nodes), now

    @property
    def deadline(self) -> float:
        return self._checked_at + min(wait * self._seconds(kind) for kind, wait in self._waits.items())

    def take_due(self, now: float) -> list[str]:
        """The kinds of the faults whose time has come since the last call. Time while no workers run does not count."""
        elapsed, self._checked_at = max(0.0, now - self._checked_at), now
        due = []
        for kind in self._waits:
            self._waits[kind] -= elapsed / self._seconds(kind)
            if self._waits[kind] <= 1e-9:
                due.append(kind)
                self._waits[kind] = self._next_wait()
        return due

    def _seconds(self, kind: str) -> float:
        return self._intervals[kind] * self._nodes


def verdict_in_words(
    counts: dict[str, int], restarts: int, goodput: object, *, succeeded: bool, several_nodes: bool
) -> str:
    """For example: the job survived 9 faults (7 kill, 2 hang) with 9 restarts; goodput 93 %"""
    total = sum(counts.values())
    if not total:
        return "chaos: this node injected no faults" if several_nodes else "chaos: the job ended before the first fault"
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    faults = f"{_count('fault', total)} ({kinds})"
    what = "survived" if succeeded else "did not survive"
    where = " that this node injected" if several_nodes else ""
    share = f"; goodput {100 * goodput:.0f} %" if isinstance(goodput, float) else ""
    return f"chaos: the job {what} {faults}{where}, with {_count('restart', restarts)}{share}"


def _count(noun: str, number: int) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
