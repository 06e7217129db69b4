"""flota.spawn: functions as workers, by every start method, and what is left when something goes wrong: nobody."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import flota
from flota.errors.spawning import (
    CannotStartNode,
    MissingGuard,
    NodeLost,
    NoResult,
    NotPicklable,
    TimedOut,
    WorkersStopped,
)
from tests.launching import DEADLINE, EXIT_DEADLINE, assert_nobody_left, children, environment, wait_until

from . import functions

PROGRAM = Path(__file__).parent / "programs" / "spawning.py"
METHODS = ["spawn", "fork", "forkserver"]
SCRIPTED = ("sleeps.py", "does_all.py")


@pytest.fixture(autouse=True)
def _nobody_is_left():
    yield
    assert_nobody_left()


@pytest.fixture(params=METHODS)
def method(request):
    return request.param


def program(flota, *words):
    return flota.start(PROGRAM, *words, command=[sys.executable])


def run_text(directory, text, *flags):
    script = directory / "script.py"
    script.write_text(text)
    return subprocess.run(
        [sys.executable, *flags, script],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_results_are_in_rank_order(method):
    workers = flota.spawn(functions.gives_rank, ("a", 1), nprocs=3, start_method=method)

    assert workers.results() == [(0, ("a", 1)), (1, ("a", 1)), (2, ("a", 1))]
    assert [process.exitcode for process in workers.processes] == [0, 0, 0]


def test_the_rank_comes_first_when_asked_for(method):
    workers = flota.spawn(functions.gives_rank, ("a",), nprocs=2, with_rank=True, start_method=method)

    assert workers.results() == [(0, (0, "a")), (1, (1, "a"))]


def test_workers_get_the_commands_variables_and_the_program_keeps_its_own(flota, method, tmp_path):
    import flota as library

    flota.run("--nproc_per_node", 2, "dumps_env.py")
    dumped = json.loads((tmp_path / "dump.0.json").read_text())["env"]
    names = set(dumped["FLOTA_GIVEN"].split(","))
    before = dict(os.environ)

    first, second = library.spawn(
        functions.gives_environment, nprocs=2, start_method=method, log_dir=str(tmp_path / "own")
    ).results()

    assert set(first["FLOTA_GIVEN"].split(",")) == names
    assert all(name in first for name in names)
    assert (first["RANK"], second["PADDLE_TRAINER_ID"], second["FLOTA_WORLD_SIZE"]) == ("0", "1", "2")
    assert first["MASTER_PORT"] == second["MASTER_PORT"]
    assert dict(os.environ) == before


def test_one_worker_a_cpu_without_devices():
    assert len(flota.spawn(functions.gives_rank).results()) == len(os.sched_getaffinity(0))


def test_the_first_visible_devices_are_used(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")

    first, second = flota.spawn(functions.gives_environment, nprocs=2).results()

    assert first["CUDA_VISIBLE_DEVICES"] == second["CUDA_VISIBLE_DEVICES"] == "4,5"
    assert (first["FLAGS_selected_gpus"], second["FLAGS_selected_gpus"]) == ("0", "1")
    assert (first["FLOTA_DEVICE"], second["FLOTA_DEVICE"]) == ("4", "5")


def test_named_devices_are_used(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")

    found = flota.spawn(functions.gives_environment, gpus=[7, 5], framework="paddle").results()

    assert [env["FLAGS_selected_gpus"] for env in found] == ["3", "1"]
    assert found[0]["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"


def test_a_failure_stops_the_others_and_brings_its_traceback(method):
    with pytest.raises(
        flota.WorkerFailed, match=r"rank 1 failed first: exit code 1 .*ValueError: no data for 1"
    ) as caught:
        flota.spawn(functions.fails_in, (1,), nprocs=3, start_method=method)

    failed = caught.value
    assert (failed.rank, failed.exit_code, failed.signal) == (1, 1, None)
    assert isinstance(failed, flota.FlotaError)
    assert failed.traceback.startswith("Traceback (most recent call last):")
    assert "deep_inside" in failed.traceback and "spawning" not in failed.traceback
    assert str(failed.__cause__).strip() == failed.traceback.strip()


@pytest.mark.parametrize(("code", "expected"), [(3, 3), ("text", 1)])
def test_a_workers_exit_code_is_reported(method, code, expected):
    with pytest.raises(flota.WorkerFailed) as caught:
        flota.spawn(functions.exits, (code,), nprocs=1, start_method=method)

    assert (caught.value.exit_code, caught.value.signal, caught.value.traceback) == (expected, None, "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGXCPU, signal.SIGINT])
def test_a_workers_signal_is_reported(method, number):
    with pytest.raises(flota.WorkerFailed, match=number.name) as caught:
        flota.spawn(functions.kills_itself, (number,), nprocs=2, start_method=method)

    assert (caught.value.rank, caught.value.exit_code, caught.value.signal) == (1, 128 + number, number)


def test_large_results_do_not_block(method):
    workers = flota.spawn(functions.gives_much, (50_000_000,), nprocs=2, start_method=method)

    assert [len(result) for result in workers.results()] == [50_000_000] * 2


def test_a_result_that_cannot_be_sent_is_a_failure(method):
    with pytest.raises(flota.WorkerFailed, match="cannot pickle"):
        flota.spawn(functions.gives_lock, nprocs=1, start_method=method)


def test_workers_are_there_before_they_are_awaited(method, tmp_path):
    gate = tmp_path / "gate"
    with flota.spawn(functions.waits_for, (str(gate),), nprocs=2, join=False, start_method=method) as workers:
        assert len(set(workers.pids)) == 2
        assert all(process.is_alive() for process in workers.processes)
        assert workers.join(timeout=0.01) is False
        first = workers.processes[0]

        gate.touch()
        first.join()

        assert not first.is_alive()

        assert workers.join(timeout=DEADLINE) is True

    assert workers.results() == [str(gate)] * 2
    assert not any(process.is_alive() for process in workers.processes)


def test_killed_workers_have_no_results(method, tmp_path):
    workers = flota.spawn(functions.ignores_stops, (str(tmp_path),), nprocs=2, join=False, start_method=method)
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2, "workers")

    workers.kill()

    with pytest.raises(WorkersStopped):
        workers.join()
    with pytest.raises(NoResult, match="rank 0 has no result: SIGKILL"):
        workers.results()


def test_a_block_that_has_killed_its_workers_exits_without_an_error():
    with flota.spawn(functions.sleeps, (100,), nprocs=2, join=False) as workers:
        workers.kill()

    assert all(process.exitcode < 0 for process in workers.processes)


def going(directory):
    wait_until(lambda: len(list(directory.glob("going.*"))) == 2, "steps")


def test_workers_that_ask_stop_at_one_step_when_they_are_asked_to(method, tmp_path):
    flota.heartbeat(1)  # of a program that is no worker; its forks are
    workers = flota.spawn(functions.counts_until_told, (str(tmp_path),), nprocs=2, join=False, start_method=method)
    going(tmp_path)

    workers.stop()

    assert workers.join() is True
    first, second = workers.results()
    assert first == second > 20


def test_callbacks_of_workers_are_called_at_one_step(method, tmp_path):
    workers = flota.spawn(functions.counts_until_called, (str(tmp_path),), nprocs=2, join=False, start_method=method)
    going(tmp_path)

    workers.stop()

    assert workers.join() is True
    first, second = ((tmp_path / f"saved.{rank}").read_text() for rank in (0, 1))
    assert first == second
    with pytest.raises(NoResult, match="rank 0 has no result: exit code 0"):
        workers.results()


def test_workers_that_do_not_ask_are_stopped(method):
    workers = flota.spawn(functions.sleeps, (100,), nprocs=2, join=False, start_method=method)

    workers.stop()

    with pytest.raises(WorkersStopped):
        workers.join()
    assert [process.exitcode for process in workers.processes] == [-signal.SIGTERM] * 2


def test_a_worker_that_spawns_does_not_share_its_channel_page(flota, method):
    (flota.directory / "script.py").write_text(
        f"""
import flota, os, time
from tests.processes import functions

if __name__ == "__main__":
    flota.heartbeat(1)
    with flota.spawn(functions.counts_until_told, (os.getcwd(),), nprocs=2, join=False, start_method={method!r}) as workers:
        while not os.path.exists("going.0") or not os.path.exists("going.1"):
            time.sleep(0.01)
        workers.stop()
    print(len(set(workers.results())), flota.should_stop())
"""
    )

    ended = flota.run("script.py", env={"PYTHONPATH": str(PROGRAM.parents[3])})

    assert flota.log(0) == "1 False\n", ended.stderr


def test_a_program_may_be_preempted_with_its_workers(flota):
    (flota.directory / "script.py").write_text(
        """
import os, signal, sys
import flota
from tests.processes import functions

if __name__ == "__main__":
    workers = flota.spawn(functions.counts_until_told, (os.getcwd(),), nprocs=2, join=False)
    signal.signal(signal.SIGTERM, lambda *_: workers.stop())
    workers.join()
    print(len(set(workers.results())))
    sys.exit(75)
"""
    )
    running = flota.start("script.py", command=[sys.executable], env={"PYTHONPATH": str(PROGRAM.parents[3])})
    running.wait_for("going.0", "going.1")

    running.process.send_signal(signal.SIGTERM)

    out, err = running.output()
    assert (running.process.returncode, out) == (75, "1\n"), err


def test_an_exception_in_a_with_block_ends_the_workers():
    with pytest.raises(ZeroDivisionError), flota.spawn(functions.sleeps, (100,), nprocs=2, join=False):
        raise ZeroDivisionError

    assert_nobody_left()


def test_a_timeout_ends_the_workers(method):
    with pytest.raises(TimedOut, match=r"0\.3 s"):
        flota.spawn(functions.sleeps, (100,), nprocs=2, timeout=0.3, start_method=method)


def test_workers_that_are_deaf_to_a_timeout_have_the_grace_that_was_given(method, tmp_path):
    began = time.monotonic()

    with pytest.raises(TimedOut):
        flota.spawn(functions.ignores_stops, (str(tmp_path),), nprocs=2, timeout=1, grace=0.2, start_method=method)

    assert time.monotonic() - began < 30  # the default


def test_output_goes_where_the_program_prints(method, capsys):
    flota.spawn(functions.says, ("out of", "err of"), nprocs=2, start_method=method)

    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == ["out of 0", "out of 1"]
    assert sorted(err.splitlines()) == ["err of 0", "err of 1"]


def test_what_the_program_has_printed_before_comes_before(method, tmp_path):
    ended = run_text(
        tmp_path,
        f"""
import flota

def work():
    print("worker")

if __name__ == "__main__":
    print("before")
    flota.spawn(work, nprocs=1, start_method={method!r})
    print("after")
""",
    )

    assert ended.stdout == "before\nworker\nafter\n", ended.stderr


def test_output_goes_to_logs_when_asked_for(method, capsys, tmp_path):
    flota.spawn(functions.says, ("out of", "err of"), nprocs=2, start_method=method, log_dir=tmp_path)
    with pytest.raises(flota.WorkerFailed) as caught:
        flota.spawn(functions.fails_in, (1,), nprocs=2, start_method=method, log_dir=tmp_path)

    assert capsys.readouterr() == ("", "")
    assert [line for line in (tmp_path / "workerlog.0").read_text().splitlines() if "=====" not in line] == [
        "out of 0",
        "err of 0",
    ]
    assert caught.value.traceback in (tmp_path / "workerlog.1").read_text()
    assert caught.value.log == str(tmp_path / "workerlog.1")


def test_the_first_workers_variables_are_printed_when_asked_for(capsys):
    flota.spawn(functions.gives_rank, nprocs=2, print_config=True)

    assert "PADDLE_TRAINERS_NUM                       2" in capsys.readouterr().out


def test_lines_stay_whole_when_all_write_to_one_console(flota, method):
    ended = flota.run(
        PROGRAM, "prints_lines", "args=(2000,)", "nprocs=4", f"start_method={method!r}", command=[sys.executable]
    )

    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.splitlines()) == sorted(
        f"rank {rank} line {n} {'x' * 50}" for rank in range(4) for n in range(2000)
    )


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_queues_and_events_can_be_arguments(method, tmp_path):
    ended = run_text(
        tmp_path,
        f"""
import multiprocessing, os, flota

def puts(queue, event):
    queue.put(int(os.environ["FLOTA_RANK"]))
    event.wait(60)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue, event = context.Queue(), context.Event()
    with flota.spawn(puts, (queue, event), nprocs=2, join=False, start_method={method!r}):
        print(sorted(queue.get(timeout=60) for _ in range(2)))
        event.set()
""",
    )

    assert (ended.stdout, ended.stderr) == ("[0, 1]\n", "")


def test_a_fork_can_be_of_a_function_that_has_no_name():
    secret = threading.Lock()

    assert flota.spawn(lambda: (functions.rank(), secret.locked()), nprocs=2, start_method="fork").results() == [
        (0, False),
        (1, False),
    ]


def test_workers_can_start_workers(method):
    workers = flota.spawn(functions.starts_others, nprocs=2, start_method=method)

    assert workers.results() == [[(0, ("inner",)), (1, ("inner",))]] * 2


def test_workers_have_no_descriptor_that_is_not_theirs():
    assert all(
        set(found) <= {"0", "1", "2", "3"} for found in flota.spawn(functions.lists_descriptors, nprocs=2).results()
    )


def test_a_program_without_standard_streams_can_spawn(flota, method):
    words = [sys.executable, PROGRAM, "ends_slowly", "args=(0,)", "nprocs=2", f"start_method={method!r}"]
    running = flota.start("-c", '"$@" <&- >&- 2>&-', "sh", *words, command=["sh"])

    assert running.wait() == 0
    assert all((running.directory / f"done.{rank}").exists() for rank in (0, 1))


def test_too_few_descriptors_are_one_clear_error():
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    try:
        for workers in (100, 199, 300):
            with pytest.raises(flota.FlotaError):
                flota.spawn(functions.gives_rank, nprocs=workers)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    gc.collect()

    assert len(os.listdir("/proc/self/fd")) == before


def test_whichever_descriptor_is_the_last_one_nothing_stays_open():
    import resource

    flota.spawn(functions.gives_rank, nprocs=2)  # all that it imports
    gc.collect()
    before = sorted(os.listdir("/proc/self/fd"))
    free = [fd for fd in range(300) if str(fd) not in before]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        for first_refused in free[:18]:
            resource.setrlimit(resource.RLIMIT_NOFILE, (first_refused, hard))
            with contextlib.suppress(flota.FlotaError):
                flota.spawn(functions.gives_rank, nprocs=2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    gc.collect()

    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_program_that_may_have_no_more_threads_is_one_clear_error(method, monkeypatch):
    gc.collect()
    before = sorted(os.listdir("/proc/self/fd"))

    def refuse(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(CannotStartNode, match=r"can't start new thread\nhint: check `ulimit -u`"):
            flota.spawn(functions.sleeps, (100,), nprocs=2, start_method=method)

    gc.collect()
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_call_leaves_no_descriptor_open(method):
    gc.collect()  # what earlier tests' exceptions hold
    before = sorted(os.listdir("/proc/self/fd"))

    for _ in range(3):
        with pytest.raises(flota.WorkerFailed):
            flota.spawn(functions.exits, (1,), nprocs=2, start_method=method)
        flota.spawn(functions.gives_rank, nprocs=2, start_method=method).results()

    gc.collect()
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_any_thread_may_spawn(method):
    found = []

    threads = [
        threading.Thread(
            target=lambda: found.append(flota.spawn(functions.gives_rank, nprocs=2, start_method=method).results())
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [[(0, ()), (1, ())]] * 3


def test_the_programs_own_children_and_handlers_are_left_alone(method):
    handlers = [signal.getsignal(number) for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM)]
    own = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(5)"], stdin=subprocess.PIPE)

    workers = flota.spawn(functions.sleeps, (100,), nprocs=2, join=False, start_method=method)
    workers.kill()

    assert own.poll() is None
    own.communicate()
    assert own.returncode == 5
    assert [signal.getsignal(number) for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM)] == handlers


def test_an_event_loop_keeps_running_beside_workers():
    async def both():
        workers = flota.spawn(functions.sleeps, (0.5,), nprocs=2, join=False)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "raise SystemExit(4)")
        joined, code = await asyncio.gather(asyncio.to_thread(workers.join), process.wait())
        return joined, code, workers.results()

    assert asyncio.run(both()) == (True, 4, [0.5, 0.5])


def test_a_program_that_ignores_its_children_has_workers_that_do_not(method, tmp_path):
    ended = run_text(
        tmp_path,
        f"""
import signal, subprocess, sys, flota

def runs_true():
    return subprocess.run([sys.executable, "-c", "raise SystemExit(4)"]).returncode, signal.getsignal(signal.SIGTERM)

if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(flota.spawn(runs_true, nprocs=2, start_method={method!r}).results() == [(4, signal.SIG_DFL)] * 2)
""",
    )

    assert ended.stdout == "True\n", ended.stderr


@pytest.mark.parametrize("victim", ["node", "shepherd"])
def test_no_process_survives_the_death_of_flotas_own_processes(method, victim):
    before = set(children(os.getpid()))
    workers = flota.spawn(functions.sleeps, (100,), nprocs=2, join=False, start_method=method)
    [node] = set(children(os.getpid())) - before
    [shepherd] = children(node)

    os.kill(node if victim == "node" else shepherd, signal.SIGKILL)

    with pytest.raises(NodeLost, match="SIGKILL"):
        workers.join()
    assert_nobody_left()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("behaviour", SCRIPTED)
def test_no_process_survives_the_death_of_the_program(flota, method, behaviour, number):
    running = program(flota, "behaves", f"args=({behaviour!r},)", "nprocs=2", f"start_method={method!r}")
    running.wait_for("ready.0.0", "ready.1.0")

    os.kill(running.pid, number)

    assert running.wait() == -number
    assert_nobody_left()


@pytest.mark.parametrize("_repeat", range(100 if os.environ.get("FLOTA_SOAK") else 5))
def test_no_process_survives_a_program_that_dies_while_it_starts_workers(flota, method, _repeat):
    running = program(flota, "waits", "nprocs=2", f"start_method={method!r}")
    time.sleep(random.uniform(0.03, 0.4))

    os.kill(running.pid, signal.SIGKILL)
    running.wait()

    assert_nobody_left()


def test_workers_end_with_the_program_despite_a_stray_that_has_its_descriptors(flota, method):
    running = program(flota, "waits", "nprocs=2", "join=False", "stray=True", "then='wait'", f"start_method={method!r}")
    running.wait_for("ready.0.0", "ready.1.0")
    wait_until(lambda: len(children(running.pid)) == 2, "the stray")
    [stray] = [pid for pid in children(running.pid) if not children(pid)]

    os.kill(running.pid, signal.SIGKILL)
    running.wait()

    from tests.launching import survivors

    wait_until(lambda: survivors() == [stray], f"only {stray} to be left")
    os.kill(stray, signal.SIGKILL)


def test_ctrl_c_ends_all(flota, method):
    running = program(flota, "waits", "nprocs=2", f"start_method={method!r}")
    running.wait_for("ready.0.0", "ready.1.0")

    os.kill(running.pid, signal.SIGINT)

    assert running.wait() == -signal.SIGINT
    assert_nobody_left()
    assert running.output()[1].strip().endswith("KeyboardInterrupt")


def test_a_second_ctrl_c_does_not_wait(flota, method):
    running = program(flota, "behaves", "args=('ignores_sigterm.py',)", "nprocs=2", f"start_method={method!r}")
    running.wait_for("ready.0.0", "ready.1.0")

    give_up = time.monotonic() + EXIT_DEADLINE
    while running.process.poll() is None and time.monotonic() < give_up:
        os.kill(running.pid, signal.SIGINT)
        time.sleep(0.2)

    assert running.wait() == -signal.SIGINT
    assert_nobody_left()


def test_the_programs_end_waits_for_its_workers(flota, method):
    running = program(flota, "ends_slowly", "args=(0.5,)", "nprocs=2", "join=False", f"start_method={method!r}")

    assert running.wait() == 0
    assert all((running.directory / f"done.{rank}").exists() for rank in (0, 1))


@pytest.mark.parametrize("words", [("daemon=True",), ("then='raise'",)])
def test_the_programs_end_ends_daemons_and_a_crash_ends_all(flota, method, words):
    running = program(flota, "waits", "nprocs=2", "join=False", f"start_method={method!r}", *words)

    assert running.wait() == (1 if "raise" in words[0] else 0)
    assert_nobody_left()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_missing_guard_is_one_clear_error(method, tmp_path):
    ended = run_text(
        tmp_path, f"import flota\ndef work(): pass\nflota.spawn(work, nprocs=4, start_method={method!r})\n"
    )

    assert ended.returncode == 1
    assert ended.stderr.count("Traceback") == 1
    *_, words, way_out = ended.stderr.splitlines()
    assert words.endswith(MissingGuard().message)
    assert way_out == 'hint: put the call under `if __name__ == "__main__":`'


@pytest.mark.parametrize(
    ("call", "way_out"),
    [
        ("flota.spawn(print, nprocs=2, gpus='4,5')", "hint: leave gpus out, or write devices='cpu'"),
        ("flota.launch('missing.py')", "hint: check the path"),
    ],
)
def test_an_uncaught_error_says_what_to_do(tmp_path, call, way_out):
    ended = run_text(tmp_path, f"import flota\nif __name__ == '__main__':\n    {call}\n")

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(way_out)


def test_an_error_of_many_lines_is_reported_by_its_first_line():
    with pytest.raises(flota.WorkerFailed, match=r"ValueError: first line$"):
        flota.spawn(functions.says_much_and_fails, nprocs=1)


def test_an_error_is_not_taken_for_another_of_its_name():
    with pytest.raises(flota.WorkerFailed, match="MissingGuard: of the function's own"):
        flota.spawn(functions.fails_with_a_known_name, nprocs=1)


def test_the_way_out_of_a_log_directory_that_is_none_is_an_option():
    with pytest.raises(flota.FlotaError, match="hint: choose another with log_dir='DIR'"):
        flota.spawn(functions.gives_rank, nprocs=1, log_dir="/proc/x")


def test_an_error_in_the_script_is_reported_once(tmp_path):
    ended = run_text(
        tmp_path,
        "import flota\ndef work(): pass\nif __name__ == '__main__':\n    flota.spawn(work, nprocs=2)\nelse:\n    1 / 0\n",
    )

    assert ended.returncode == 1
    assert ended.stderr.strip().splitlines()[-1].endswith("ZeroDivisionError: division by zero")


def test_what_cannot_be_pickled_is_one_clear_error():
    with pytest.raises(NotPicklable, match=r"gives_rank.*cannot pickle '_thread.lock' object"):
        flota.spawn(functions.gives_rank, (threading.Lock(),), nprocs=2)


def test_in_a_shell_the_error_without_cloudpickle_says_what_to_do(tmp_path):
    text = "import flota, sys\nsys.modules['cloudpickle'] = None\ndef work(): return 7\n"

    ended = subprocess.run(
        [sys.executable, "-c", f"{text}flota.spawn(work, nprocs=2)"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    *_, words, way_out = ended.stderr.splitlines()
    assert words.endswith("`work` is defined in a notebook or a shell, where workers cannot import it")
    assert way_out == "hint: run `pip install cloudpickle`, move the function to a module, or use start_method='fork'"
    forked = subprocess.run(
        [sys.executable, "-c", f"{text}print(flota.spawn(work, nprocs=2, start_method='fork').results())"],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert forked.stdout == "[7, 7]\n"


@pytest.mark.parametrize("what", ["functools.partial(work)", "Thing()", "[Thing()].copy"])
def test_whatever_a_shell_has_defined_is_known_without_cloudpickle(what):
    text = (
        "import flota, functools, sys\nsys.modules['cloudpickle'] = None\ndef work(): return 7\n"
        f"class Thing:\n    def __call__(self): pass\nflota.spawn({what}, nprocs=2)"
    )

    ended = subprocess.run([sys.executable, "-c", text], env=environment(), capture_output=True, text=True, check=False)

    *_, words, way_out = ended.stderr.splitlines()
    assert words.endswith("is defined in a notebook or a shell, where workers cannot import it")
    assert way_out.startswith("hint: run `pip install cloudpickle`")


def test_other_functions_run_in_a_shell_without_cloudpickle():
    text = "import flota, sys\nsys.modules['cloudpickle'] = None\nprint(flota.spawn([1, 2].copy, nprocs=2).results())"

    ended = subprocess.run([sys.executable, "-c", text], env=environment(), capture_output=True, text=True, check=False)

    assert ended.stdout == "[[1, 2], [1, 2]]\n", ended.stderr


@pytest.mark.parametrize("text", ["1 / 0\n{spawn}", "{spawn}1 / 0\n"])
def test_a_mistake_in_a_shell_does_not_make_its_end_a_crash(tmp_path, text):
    spawn = "from tests.processes.programs.spawning import ends_slowly\nimport flota\nw = flota.spawn(ends_slowly, (0.5,), nprocs=2, join=False, start_method='fork')\n"

    subprocess.run(
        [sys.executable, "-i"], input=text.format(spawn=spawn), cwd=tmp_path, text=True, check=True, timeout=60,
        env=environment({"PYTHONPATH": str(PROGRAM.parents[3])}), capture_output=True,
    )  # fmt: skip

    assert all((tmp_path / f"done.{rank}").exists() for rank in (0, 1))


@pytest.mark.parametrize("method", METHODS)
def test_a_shells_own_functions_and_classes_run_with_cloudpickle(method):
    text = (
        "import flota\nclass Thing:\n    def __init__(self, n): self.n = n\n"
        "def work(thing): return Thing(thing.n + 1)\n"
        f"a, b = flota.spawn(work, (Thing(1),), nprocs=2, start_method={method!r}).results()\n"
        "print(type(a) is Thing, a.n + b.n)\n"
    )

    ended = subprocess.run(
        [sys.executable, "-"], input=text, env=environment(), capture_output=True, text=True, check=False
    )

    assert ended.stdout == "True 4\n", ended.stderr
