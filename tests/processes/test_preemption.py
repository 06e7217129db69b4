"""Preemption on one machine: workers that ask whether to stop save what they have, and a scheduler may try again."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from tests.launching import assert_nobody_left


def preempt(flota, *words, number=signal.SIGTERM, workers=2):
    running = flota.start("--nproc_per_node", workers, *words)
    running.wait_for(*(f"going.{rank}" for rank in range(workers)))
    running.process.send_signal(number)
    _, err = running.output()
    return running.process.returncode, err


def noted(flota, what):
    return [path.read_text() for path in sorted(flota.directory.glob(f"{what}.*"))]


def saved(flota):
    return noted(flota, "saved")


@pytest.mark.parametrize("flags", [(), ("--preempt-timeout", "20s", "--grace", "0.1")])
def test_all_save_at_one_step_and_the_job_may_be_tried_again(flota, flags):
    code, err = preempt(flota, *flags, "yields.py", "saves")
    assert code == 75, err
    assert len(saved(flota)) == 2 and len(set(saved(flota))) == 1
    step = saved(flota)[0]
    assert f"SIGTERM received; asking all ranks to save and exit at step {step} (up to " in err
    last = err.splitlines()[-1]
    assert last.startswith("flota: preempted by SIGTERM after ")
    assert last.endswith(f": all 2 ranks saved at step {step} and exited")
    assert_nobody_left()


@pytest.mark.parametrize(
    ("name", "number"),
    [("SIGUSR1", signal.SIGUSR1), ("usr1", signal.SIGUSR1), ("SIGHUP", signal.SIGHUP), ("SIGPOLL", signal.SIGPOLL)],
)
def test_another_signal_may_ask_for_it(flota, name, number):
    code, err = preempt(flota, "--preempt-signal", name, "yields.py", "saves", number=number)
    assert code == 75, err
    assert "flota: preempted by SIG" in err.splitlines()[-1] and "SIGTERM" not in err


@pytest.mark.parametrize("ways", [("calls",), ("calls", "saves"), ("both",), ("threads", "calls")], ids=" ".join)
def test_all_callbacks_are_called_at_one_step_and_the_workers_end(flota, ways):
    code, err = preempt(flota, "yields.py", *ways)
    assert code == 75, err
    assert len(saved(flota)) == 2 and len(set(saved(flota))) == 1
    assert f"asking all ranks to save and exit at step {saved(flota)[0]} (up to" in err
    assert_nobody_left()


def test_a_worker_with_a_callback_that_also_asks_stops_at_the_same_step(flota):
    code, err = preempt(flota, "yields.py", "both")
    assert code == 75, err
    assert noted(flota, "asked") == saved(flota)


def test_a_signal_that_comes_when_a_worker_has_saved_and_ends_is_not_its_end(flota):
    code, err = preempt(flota, "yields.py", "late")

    assert code == 75, err
    assert saved(flota)[0] == saved(flota)[1]


@pytest.mark.parametrize("ways", [("silent",), ("silent", "calls"), ("epochs",)], ids=" ".join)
def test_without_steps_that_say_where_they_are_all_save_now(flota, ways):
    code, err = preempt(flota, "yields.py", *ways)
    assert code == 75, err
    assert len(saved(flota)) == 2
    assert "asking all ranks to save and exit (up to" in err


def test_a_callback_that_fails_has_saved_nothing(flota):
    code, err = preempt(flota, "yields.py", "calls", "raises")
    assert code == 143, err
    assert "OSError: the disk is full" in flota.log(1)
    assert_nobody_left()


def test_a_callback_that_is_late_may_finish_within_the_grace(flota):
    code, err = preempt(flota, "--preempt-timeout", "1s", "yields.py", "lingers")
    assert code == 143, err
    assert len(saved(flota)) == 2


def test_a_callback_that_does_not_finish_is_ended(flota):
    code, err = preempt(flota, "--grace", "1s", "yields.py", "lingers")
    assert (code, len(noted(flota, "begun")), saved(flota)) == (143, 2, []), err
    assert_nobody_left()


@pytest.mark.parametrize("way", ["calls", "silent", "both"])
def test_workers_do_not_save_because_a_peer_failed(flota, way):
    ended = flota.run("--nproc_per_node", 2, "yields.py", way, "dies")
    assert (ended.returncode, noted(flota, "begun")) == (3, []), ended.stderr


def test_the_scripts_own_handler_is_called_where_there_is_no_preemption(flota):
    ended = flota.run("--nproc_per_node", 2, "yields.py", "handles", "dies")
    assert (ended.returncode, len(noted(flota, "handled")), noted(flota, "begun")) == (3, 1, []), ended.stderr


def test_forked_children_have_no_callbacks(flota):
    ended = flota.run("forks_beside_callback.py")
    assert flota.log(0) == "children ended with -15 0\n", ended.stderr


@pytest.mark.parametrize("other", ["ignores", "stalls", "fails"])
def test_if_one_does_not_save_it_is_an_ordinary_stop(flota, other):
    code, err = preempt(flota, "--grace", 1, "yields.py", "saves", other)
    assert code == 143, err
    assert_nobody_left()


@pytest.mark.parametrize("way", ["saves", "calls", "silent"])
def test_ctrl_c_is_not_a_preemption(flota, way):
    code, err = preempt(flota, "yields.py", way, number=signal.SIGINT)
    assert (code, noted(flota, "begun"), saved(flota)) == (130, [], []), err


WITHOUT = """
import os, signal, sys, threading
import flota
signal.signal(signal.SIGTERM, lambda *_: sys.exit("its own handler"))
flota.heartbeat(1, loss=0.5)
thread = threading.Thread(target=flota.on_stop, args=(lambda: print("called"),))
thread.start()
thread.join()
flota.on_stop(lambda: print("called"))
print(flota.should_stop(), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_without_flota_the_script_just_runs(flota):
    (flota.directory / "script.py").write_text(WITHOUT)

    ended = flota.run("script.py", command=[sys.executable])

    assert (ended.stdout, ended.stderr) == ("False\n", "its own handler\n")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            "threading.Thread(target=flota.on_stop, args=(print,)).start()",
            "NotInMainThread: flota.on_stop must be called in the main thread",
        ),
        ("flota.on_stop(5)", "NothingToCall: flota.on_stop takes a function without arguments, not `5`\nhint: write"),
    ],
)
def test_what_cannot_be_called_back_is_one_clear_error(flota, call, words):
    (flota.directory / "script.py").write_text(f"import flota, threading\n{call}\n")

    flota.run("script.py")

    assert words in flota.log(0)


def test_workers_save_before_slurms_time_limit(flota):
    running = flota.start(
        *("--nproc_per_node", 2, "--stop_before", "1h", "yields.py", "saves"),
        env={"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": str(int(time.time()) + 3602)},
    )

    _, err = running.output()

    assert running.process.returncode == 75, err
    assert len(saved(flota)) == 2
    assert "the time limit is near (--stop_before): stopping as after SIGTERM" in err
    assert_nobody_left()
