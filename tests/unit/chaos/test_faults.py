from __future__ import annotations

import random

import pytest

from flota.chaos.faults import BadFault, Faults, FaultSchedule, parse_faults, verdict_in_words
from flota.cli.convert import read_duration


def parse(words: str) -> Faults:
    return parse_faults(words, read_duration)


def test_kinds_intervals_and_the_seed_are_read() -> None:
    assert parse("kill=60s, node=10m,seed=7") == Faults((("kill", 60.0), ("node", 600.0)), 7)
    assert parse("hang=2.5").seed is None


@pytest.mark.parametrize(
    ("words", "part", "expected"),
    [
        *[(f"node=1m,{part}", part, "an interval of 0.1s or more") for part in ("kill", "kill=", "kill=0", "kill=-1s")],
        *[(f"node=1m,{part}", part, "an interval of 0.1s or more") for part in ("kill=inf", "kill=soon", "kill=nan")],
        *[(f"kill=1m,{part}", part, "one of kill, hang, pause, shepherd, node") for part in ("", "burn=1m", "Kill=1m")],
        *[(words, words, "at least one of kill, hang, pause, shepherd, node") for words in ("seed=7",)],
        ("", "", "one of kill, hang, pause, shepherd, node"),
        ("kill=1m,kill=2m", "kill=2m", "kill once"),
        ("kill=1m,seed=1,seed=1", "seed=1", "seed once"),
        ("kill=1m,seed=x", "seed=x", "a whole number"),
    ],
)
def test_the_part_that_is_wrong_is_named(words: str, part: str, expected: str) -> None:
    with pytest.raises(BadFault) as caught:
        parse(words)

    assert caught.value.part == part
    assert expected in caught.value.expected


def inject(schedule: FaultSchedule, seconds: float) -> list[tuple[float, str]]:
    """Follow the schedule's own deadlines."""
    found = []
    now = 0.0
    while (now := schedule.deadline) < seconds:
        found += [(now, kind) for kind in schedule.take_due(now)]
    return found


def test_faults_come_as_often_as_asked_for() -> None:
    faults = parse("kill=10s,node=100s")

    found = inject(FaultSchedule(faults, random.Random(1).random, 0.0), 20_000.0)

    kinds = [kind for _, kind in found]
    assert 1800 < kinds.count("kill") < 2200
    assert 140 < kinds.count("node") < 260


def test_the_same_seed_gives_the_same_faults() -> None:
    faults = parse("kill=10s")

    one, other = (inject(FaultSchedule(faults, random.Random(3).random, 0.0), 500.0) for _ in range(2))

    assert one == other


def test_each_of_several_nodes_injects_its_share() -> None:
    schedule = FaultSchedule(parse("kill=10s"), random.Random(1).random, 0.0)
    schedule.use_nodes(4, 0.0)

    assert 400 < len(inject(schedule, 20_000.0)) < 600


def test_time_without_workers_does_not_count() -> None:
    schedule = FaultSchedule(parse("kill=10s"), lambda: 0.5, 0.0)
    wait = schedule.deadline

    schedule.use_nodes(1, 1000.0)

    assert schedule.deadline == pytest.approx(1000.0 + wait)


def test_the_verdict_counts_faults_and_restarts() -> None:
    survived = verdict_in_words({"kill": 2, "hang": 1}, 3, 0.931, succeeded=True, several_nodes=False)
    failed = verdict_in_words({"node": 1}, 1, None, succeeded=False, several_nodes=True)

    assert survived == "chaos: the job survived 3 faults (2 kill, 1 hang), with 3 restarts; goodput 93 %"
    assert failed == "chaos: the job did not survive 1 fault (1 node) that this node injected, with 1 restart"
