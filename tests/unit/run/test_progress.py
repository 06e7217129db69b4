"""The status line's text."""

from __future__ import annotations

import pytest

from flota.host.heartbeat_page import NO_HEARTBEAT, Heartbeat
from flota.run.progress import StepPace, progress_in_words, with_steps


def beat(step, at=1.0, total=0, **numbers):
    return Heartbeat(at, step, 0, 0.1, numbers, total, b"")


@pytest.mark.parametrize(
    ("beats", "pace", "restarts", "words"),
    [
        ([beat(1240, total=5000, loss=0.213)], 3.1, 1, "step 1,240/5,000  3.1 it/s  loss 0.213  ETA 00:20:13  1 restart"),
        ([beat(7)], 0.0, 0, "step 7"),
        ([beat(0)], 0.0, 2, "step 0  2 restarts"),
        ([beat(7)], 0.25, 0, "step 7  4.0 s/it"),
        ([beat(7, total=8)], 0.0, 0, "step 7/8"),
        ([beat(8, total=8)], 1.0, 0, "step 8/8  1.0 it/s"),
        ([beat(9, total=8)], 1.0, 0, "step 9/8  1.0 it/s"),
        ([beat(0, total=360_001)], 1.0, 0, "step 0/360,001  1.0 it/s  ETA 100:00:01"),
        ([beat(0, total=2**62)], 0.001, 0, f"step 0/{2**62:,}  1000.0 s/it"),
        ([beat(8), beat(7)], 0.0, 0, "step 7"),
        ([beat(1000), beat(1002)], 0.0, 0, "step 1,000-1,002"),
        ([beat(1000), beat(1030)], 30.0, 0, "step 1,000  30.0 it/s"),
        ([beat(1000), beat(1032)], 30.0, 0, "step 1,000-1,032  30.0 it/s"),
        ([beat(7), beat(7, loss=1.5)], 0.0, 0, "step 7  loss 1.5"),
        ([beat(7, a=1, b=2e-5, c=float("nan"), d=4)], 0.0, 0, "step 7  a 1  b 2e-05  c nan"),
        ([beat(7, **{"\x1b[31mloss\n\x1b]0;": 1.0, "x" * 255: float("inf")})], 0.0, 0, f"step 7  loss??]0; 1  {'x' * 20} inf"),
    ],
)  # fmt: skip
def test_what_is_known_is_shown(beats, pace, restarts, words):
    assert progress_in_words(beats, pace, restarts) == words


def test_ranks_without_steps_do_not_count():
    assert with_steps([NO_HEARTBEAT, beat(3)]) == [beat(3)]


def test_the_pace_is_that_of_the_slowest_rank_over_its_last_steps():
    pace = StepPace()
    for second in range(100):
        pace.add([(float(second), second * 5), (float(second), second * 2)])

    assert pace.per_second == 2.0


def test_a_pause_counts_only_once_there_is_another_step():
    pace = StepPace()
    for at, step in ((1.0, 1), (2.0, 2), (2.5, 2), (6.0, 2), (11.0, 3)):
        pace.add([(at, step)])

    assert pace.per_second == 0.2


def test_steps_that_begin_anew_begin_a_new_pace():
    pace = StepPace()
    for at, step in ((1.0, 100), (2.0, 200), (3.0, 0)):
        pace.add([(at, step)])

    assert pace.per_second == 0.0
