"""Where the time of real jobs went, compared with what their workers wrote down by their own clocks."""

from __future__ import annotations

import json
import os
import signal
import socket
from itertools import pairwise

import pytest

from tests.launching import wait_until

CLOSE = 0.02  # of the wall time
PATIENCE = 60.0


def report(flota, *words):
    ran = flota.run("report", "--json", *words)
    assert ran.returncode == 0, ran.stderr
    return checked(json.loads(ran.stdout))


def checked(ledger):
    """Every microsecond of every rank has one label."""
    for row in ledger["ranks"]:
        assert sum(map(microseconds, row["seconds"].values())) == microseconds(row["wall_seconds"])
    return ledger


def microseconds(seconds):
    return round(seconds * 1_000_000)


def rank_of(ledger, rank, role="trainer"):
    return next(row for row in ledger["ranks"] if (row["rank"], row["role"]) == (rank, role))


def notes_of(flota, rank, attempt=0):
    lines = (flota.directory / f"notes.{attempt}.{rank}").read_text().splitlines()
    return [json.loads(line) for line in lines]


def events(flota, name):
    lines = (line for path in flota.directory.glob("log/events.*.jsonl") for line in path.read_text().splitlines())
    return [event for line in lines if (event := json.loads(line))["event"] == name]


def spent_by(notes, until=float("inf")):
    """Seconds by label, and those in steps after the last checkpoint."""
    spent, label, again, begun = {}, "initialise", 0.0, False
    for (at, what, detail), (next_at, *_) in pairwise(notes):
        begun = begun or what == "beat"
        label = detail if what == "enter" else "step" if begun else "initialise"
        again = 0.0 if (what, detail) == ("leave", "checkpoint") else again
        seconds = max(0.0, min(next_at, until) - at)
        spent[label] = spent.get(label, 0.0) + seconds
        again += seconds if label == "step" else 0.0
    return spent, again


def assert_close(row, expected):
    """All labels together."""
    off = {name: abs(row["seconds"].get(name, 0.0) - seconds) for name, seconds in expected.items()}
    assert sum(off.values()) <= CLOSE * row["wall_seconds"], (off, row, expected)


def test_phases_and_steps_are_those_that_the_workers_saw(flota):
    assert flota.run("--nproc_per_node", 2, "spends.py").returncode == 0

    ledger = report(flota)

    for rank in (0, 1):
        expected, _ = spent_by(notes_of(flota, rank))
        assert expected.keys() == {"initialise", "step", "checkpoint", "evaluate"}
        assert_close(rank_of(ledger, rank), expected)
    assert ledger["state"] == "ended"
    assert ledger["goodput"] == pytest.approx(ledger["seconds"]["step"] / sum(ledger["seconds"].values()), abs=1e-6)


def test_work_that_is_done_again_after_a_kill_is_lost(flota):
    assert flota.run("--nproc_per_node", 2, "--max_restart", 1, "spends.py", "dies", 13).returncode == 0

    ledger = report(flota)

    died = notes_of(flota, 1)[-1][0]
    for rank in (0, 1):
        # A rank that was behind has died with the other, and may have gone on from another checkpoint.
        notes = [note for note in notes_of(flota, rank) if note[0] < died] + [[died, "ends", ""]]
        before, again = spent_by(notes, died)
        after, _ = spent_by(notes_of(flota, rank, 1))
        expected = {name: before.get(name, 0.0) + after.get(name, 0.0) for name in {*before, *after}}
        assert_close(rank_of(ledger, rank), {**expected, "step": expected["step"] - again, "lost work": again})
    (restart,) = ledger["restarts"]
    assert (restart["round"], restart["ranks"]) == (0, 2)
    assert restart["reason"].startswith("rank 1 SIGKILL")
    assert restart["seconds"]["lost work"] == ledger["seconds"]["lost work"]


def test_a_hang_is_counted_from_the_last_sign_of_each_rank(flota):
    flota.run(
        *("--nproc_per_node", 2, "--hang-timeout", 3, "--grace", 1),
        *("spends.py", "hangs", 6),
        env={"STEP_TIME": "0.05"},
        timeout=PATIENCE,
    )

    ledger = report(flota)

    (found,) = events(flota, "hang_found")
    hung = rank_of(ledger, 1)
    assert_close(hung, {"hang": found["monotonic"] - notes_of(flota, 1)[-1][0]})
    assert "hang" not in rank_of(ledger, 0)["seconds"], "it had finished"


def test_servers_run_until_the_trainers_are_done(flota):
    flota.run("--server_num", 1, "--trainer_num", 2, "spends.py", env={"STEP_TIME": "0.02"})

    ledger = report(flota)

    server = rank_of(ledger, 0, "server")
    assert server["seconds"].keys() == {"start", "running", "stopping"}
    assert rank_of(ledger, 0)["seconds"]["step"] > 0
    trainers = [row for row in ledger["ranks"] if row["role"] == "trainer"]
    steps, wall = (
        sum(row[key]["step"] if key == "seconds" else row[key] for row in trainers)
        for key in ("seconds", "wall_seconds")
    )
    assert ledger["goodput"] == pytest.approx(steps / wall, abs=1e-6), "servers do not count"


def test_without_calls_of_flota_the_first_output_ends_the_imports(flota):
    (flota.directory / "quiet.py").write_text("import time; time.sleep(1); print('hello', flush=True); time.sleep(1)")
    flota.run("quiet.py")

    (row,) = report(flota)["ranks"]

    assert row["seconds"].keys() == {"start", "import", "running", "stopping"}
    assert min(row["seconds"]["import"], row["seconds"]["running"]) > 0.7


def test_imports_that_forked_workers_wait_for_are_imports(flota):
    (flota.directory / "slow_module.py").write_text("import time; time.sleep(1)")
    flota.run("--nproc_per_node", 2, "--warm", "slow_module", "prints.py", env={"PYTHONPATH": str(flota.directory)})

    ledger = report(flota)

    assert all(row["seconds"]["import"] > 0.9 for row in ledger["ranks"])


def test_a_running_job_is_reported_from_its_events(flota):
    running = flota.start("--nproc_per_node", 2, "sleeps.py")
    wait_until(lambda: len(events(flota, "worker_started")) == 2, "workers to start")

    ledger = report(flota)

    assert (ledger["state"], ledger["seconds"].keys()) == ("running", {"start", "running"})
    running.process.send_signal(signal.SIGINT)
    running.wait()


def test_what_a_killed_flota_has_recorded_is_reported(flota):
    running = flota.start("--nproc_per_node", 2, "spends.py", env={"STEP_TIME": "0.5"})
    wait_until(lambda: events(flota, "progress"), "the first record", PATIENCE)
    running.process.kill()
    running.wait()

    ledger = report(flota)

    (record,) = events(flota, "progress")
    assert ledger["state"] == "killed"
    for row in record["ranks"]:
        expected, _ = spent_by(notes_of(flota, row["rank"]), row["last_at"])
        assert_close(rank_of(ledger, row["rank"]), expected)


def test_report_json_has_the_ledger(flota):
    flota.run("--nproc_per_node", 2, "spends.py", env={"STEP_TIME": "0.02"})

    saved = checked(json.loads((flota.directory / "log" / "report.json").read_text())["ledger"])

    assert [row["rank"] for row in saved["ranks"]] == [0, 1]
    assert saved["goodput"] == pytest.approx(report(flota)["goodput"], abs=CLOSE)


def run_two_nodes(flota, *flags):
    """Two nodes on this machine, each with one rank."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = ("--nnodes", 2, "--master", f"127.0.0.1:{port}", *flags, "spends.py")
    env = {"STEP_TIME": "0.05", "FLOTA_TOKEN": "secret"}
    nodes = [
        flota.start("--rank", rank, *(str(word).replace("RANK", str(rank)) for word in words), env=env)
        for rank in (0, 1)
    ]
    assert [node.wait(PATIENCE) for node in nodes] == [0, 0]


def test_two_nodes_that_share_a_file_are_told_apart(flota):
    run_two_nodes(flota)

    ledger = report(flota)

    assert [row["rank"] for row in ledger["ranks"]] == [0, 1]
    for rank in (0, 1):
        assert_close(rank_of(ledger, rank), spent_by(notes_of(flota, rank))[0])
        assert "wait for nodes" in rank_of(ledger, rank)["seconds"]


def test_the_ranks_of_a_node_whose_file_is_lost_are_unknown(flota):
    run_two_nodes(flota, "--log_dir", "logs/RANK")
    (lost,) = (flota.directory / "logs" / "0").glob("events.*.jsonl")
    whole = report(flota, "logs")
    lost.unlink()

    ledger = report(flota, "logs")

    assert whole["unknown_ranks"] == 0
    assert ledger["unknown_ranks"] == 1
    assert rank_of(ledger, 0)["seconds"].keys() == {"unknown"}
    assert rank_of(ledger, 1)["seconds"]["step"] == rank_of(whole, 1)["seconds"]["step"]
    own = json.loads((flota.directory / "logs" / "0" / "report.json").read_text())["ledger"]
    assert ([row["rank"] for row in own["ranks"]], own["unknown_ranks"]) == ([0], 1), "a node knows its own ranks"


def test_people_get_a_table(flota):
    flota.run("spends.py", env={"STEP_TIME": "0.02"})

    ran = flota.run("report")

    head, goodput, *_ = ran.stdout.splitlines()
    assert head.startswith("job default: ended after ")
    assert goodput.startswith("goodput: ")
    assert [line.split()[0] for line in ran.stdout.splitlines()[3:] if line] == [
        *("seconds", "start", "import", "initialise", "step", "evaluate", "checkpoint", "stopping", "total")
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "no job has written events to `nowhere`"),
        (["--nonsense"], "`--nonsense`"),
        (["--log_dir", "log/{nothing}"], "`{nothing}`"),
    ],
)
def test_bad_input_is_one_line_with_a_hint(flota, words, message):
    ran = flota.run("report", *words)

    assert ran.returncode == 2
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr
    assert os.listdir(flota.directory) == []
