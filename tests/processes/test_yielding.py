"""Preemption on one machine: workers that ask whether to stop save what they have, and a scheduler may try again."""

from __future__ import annotations

import signal
import sys

import pytest

from tests.launching import assert_nobody_left


def preempt(flota, *words, number=signal.SIGTERM, workers=2):
    running = flota.start("--nproc_per_node", workers, *words)
    running.wait_for(*(f"going.{rank}" for rank in range(workers)))
    running.process.send_signal(number)
    _, err = running.output()
    return running.process.returncode, err


def saved(flota):
    return [path.read_text() for path in sorted(flota.directory.glob("saved.*"))]


@pytest.mark.parametrize("flags", [(), ("--preempt-timeout", "20s", "--grace", "0.1")])
def test_all_save_at_one_step_and_the_job_may_be_tried_again(flota, flags):
    code, err = preempt(flota, *flags, "yields.py", "saves")
    assert code == 75, err
    assert len(saved(flota)) == 2 and len(set(saved(flota))) == 1
    assert "the workers are asked to save and end after step " in err
    assert_nobody_left()


def test_another_signal_may_ask_for_it(flota):
    code, err = preempt(flota, "--preempt-signal", "SIGUSR1", "yields.py", "saves", number=signal.SIGUSR1)
    assert code == 75, err


def test_a_callback_is_called_and_the_worker_ends(flota):
    code, err = preempt(flota, "yields.py", "calls", "saves")
    assert code == 75, err
    assert len(saved(flota)) == 2


@pytest.mark.parametrize("other", ["ignores", "stalls", "fails"])
def test_if_one_does_not_save_it_is_an_ordinary_stop(flota, other):
    code, err = preempt(flota, "--grace", 1, "yields.py", "saves", other)
    assert code == 143, err
    assert_nobody_left()


def test_ctrl_c_is_no_preemption(flota):
    code, err = preempt(flota, "yields.py", "saves", number=signal.SIGINT)
    assert (code, saved(flota)) == (130, []), err


def test_without_flota_the_script_just_runs(flota):
    running = flota.start(
        "-c", "import flota; flota.heartbeat(1, loss=0.5); print(flota.should_stop())", command=[sys.executable]
    )
    assert running.output()[0] == "False\n"
