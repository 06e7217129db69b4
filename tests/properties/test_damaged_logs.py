"""`flota why` and `flota stack` on log directories whose files are damaged, or were never flota's."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
from copy import deepcopy

import pytest

from flota.cli.commands import why
from flota.errors import FlotaError
from flota.failures.diagnosis import Evidence
from flota.failures.last_output import recorded_exception
from flota.hangs.running_job import running_workers
from flota.job.report import BoundWorker, FailedWorker, PastRestart, Report, Verdict, report_as_dict
from flota.logs.find_runs import running_directory

DIRECTORIES = 1200 if os.environ.get("FLOTA_SOAK") else 300
DEADLINE = 20  # seconds for one directory: only a hang takes that long
HOST = os.uname().nodename
TEXTS = ["", "\x1b[2J\x1b]0;title\x07", "a\rb\x00c", "\ud800\udcff", "../../etc/passwd", "x" * 100_000, "\u202e\x9b31m"]
VALUES = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**70), 10**400, 1e308, -0.5),
    *(float("nan"), float("inf"), [], {}, [[]], [None], {"a": None}, ["rank 1", 3, "x"], "7", "rank 0"),
    *TEXTS,
]
TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\nValueError: torn\n'


def failure(rank):
    said = tuple(TRACEBACK.splitlines())
    words = {"ending": "exit code 1 (ValueError)", "exception": "ValueError", "said": said, "hint": "look", "log": "l"}
    return FailedWorker(rank=rank, local_rank=rank, node="a", pid=10 + rank, code=1, ran=2.5, at=1.8e9, **words)


def report(*, several=False):
    return report_as_dict(
        Report(
            *("default", Verdict("failed", 1, 1, reason="crash loop"), {"trainer": 4, "server": 1}, 2, 12.5, "log"),
            failed=(failure(0), failure(1)),
            secondary=(failure(2),),
            stopped=(("trainer", 3), ("server", 0)),
            several=several,
            bindings=(BoundWorker(cpus="0-3"),),
            restarts=(PastRestart(0, 1.8e9, "rank 2 ValueError", lost=("b",)),),
        )
    )


def events(node, *, ended):
    worker = {"monotonic": 5.0, "rank": 0, "pid": os.getpid()}
    rows = [
        {"event": "job_started", "pid": os.getppid(), "world_size": 2},
        {"event": "round_started", "round": 0, "attempt": 0},
        {"event": "worker_started", **worker},
        {"event": "worker_started", **worker, "rank": 1, "role": "server"},
        {"event": "worker_exited", **worker, "code": 1, "asked_to_stop": False},
        {"event": "worker_exited", **worker, "rank": 1, "role": "server", "code": -9, "asked_to_stop": False},
        *([{"event": "job_ended", "verdict": "failed", "report": report(several=True)}] if ended else []),
    ]
    return [{"time": f"2026-11-17T08:00:0{n}Z", "node": node, "job_id": "j", **row} for n, row in enumerate(rows)]


def write(directory, *, ended):
    """A log directory as a job leaves it. Not `ended`: flota was killed."""
    directory.mkdir(parents=True)
    (directory / ".flota.lock").write_text("job j, pid 7\n")
    (directory / f"events.{HOST}.jsonl").write_text(
        "".join(f"{json.dumps(row)}\n" for row in events(HOST, ended=ended))
    )
    (directory / "workerlog.0").write_text(f"===== flota: job j, 2026-11-17 08:00:00 =====\nbegins\n{TRACEBACK}")
    (directory / "serverlog.1").write_text(f"===== flota: job j, 2026-11-17 08:00:00 =====\n{TRACEBACK}")
    (directory / "error.0.json").write_text(json.dumps({"message": {"extraInfo": {"py_callstack": TRACEBACK}}}))
    if ended:
        (directory / "report.json").write_text(json.dumps(report()))


# Mutations of a file.


def nodes_of(value):
    """Every container in a value, with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    for key in keys:
        yield value, key
        yield from nodes_of(value[key])


def change_value(path, dice):
    """Replace a value of the JSON in one line, or remove it."""
    lines = path.read_text(errors="replace").splitlines()
    number = dice.randrange(len(lines)) if lines else 0
    try:
        value = json.loads(lines[number])
    except (ValueError, IndexError, RecursionError):
        return change_bytes(path, dice)
    for _ in range(dice.randint(1, 3)):
        places = list(nodes_of(value))
        if places:
            container, key = dice.choice(places)
            container[key] = deepcopy(dice.choice(VALUES))
    lines[number] = json.dumps(value)
    path.write_text("\n".join(lines) + "\n")
    return None


def change_bytes(path, dice):
    data = bytearray(path.read_bytes())
    for _ in range(dice.randint(1, 30)):
        at = dice.randrange(len(data) + 1)
        data[at : at + dice.randint(0, 3)] = dice.randbytes(dice.randint(0, 4))
    path.write_bytes(data)


def truncate(path, dice):
    os.truncate(path, dice.randrange(path.stat().st_size + 1))


def extend(path, dice):
    """A file system that was not shut down leaves NULs. The file is sparse."""
    os.truncate(path, dice.choice([1 << 16, 1 << 28, 1 << 40]))


def insert_text(path, dice):
    lines = path.read_bytes().split(b"\n")
    lines.insert(dice.randrange(len(lines) + 1), dice.choice(TEXTS).encode(errors="surrogatepass"))
    path.write_bytes(b"\n".join(lines))


def nest(path, dice):
    depth = dice.choice([100, 100_000])
    path.write_text(dice.choice(['{"event":', "["]) * depth + dice.choice(["", "1"]) + "}" * depth)


def repeat(path, dice):
    path.write_bytes(path.read_bytes() * dice.choice([2, 200]))


def replace(path, dice):
    path.unlink()
    make = dice.choice(["fifo", "directory", "dangling", "loop", "device", "socket", "other file", "nothing"])
    if make == "fifo":
        os.mkfifo(path)
    elif make == "directory":
        path.mkdir()
    elif make == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))
    elif make != "nothing":
        other = {"dangling": "none", "loop": path.name, "device": "/dev/zero", "other file": "/proc/self/maps"}
        path.symlink_to(other[make])


def rename(path, dice):
    name = dice.choice(["events.\x1b[31mred.jsonl", "events.\udcff.jsonl", "events.a\nb.jsonl", "report.json", "log"])
    path.rename(path.parent / name)


def add_latest(path, dice):
    path.parent.joinpath("latest").symlink_to(dice.choice([".", "..", "latest", "none", "\x1b[2J"]))


MUTATIONS = [
    *[change_value] * 10,
    change_bytes,
    truncate,
    extend,
    insert_text,
    nest,
    repeat,
    replace,
    rename,
    add_latest,
]


def mutate(directory, dice):
    for _ in range(dice.randint(1, 4)):
        files = [path for path in sorted(directory.rglob("*")) if is_small_file(path)]
        if files:
            try:
                dice.choice(MUTATIONS)(dice.choice(files), dice)
            except FileExistsError:
                pass


def is_small_file(path):
    return path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 24


def hang(number, frame):
    raise AssertionError("it hangs")


@pytest.mark.parametrize("part", range(10))
def test_any_directory_is_read_without_a_crash_a_hang_or_control_characters(tmp_path, capsys, monkeypatch, part):
    monkeypatch.chdir(tmp_path)
    signal.signal(signal.SIGALRM, hang)
    for number in range(part, DIRECTORIES, 10):
        dice = random.Random(number)
        directory = tmp_path / str(number)
        for below in dice.choice([[""], [""], ["node1", "node2"]]):
            write(directory / below, ended=dice.random() < 0.6)
        mutate(directory, dice)

        signal.alarm(DEADLINE)
        try:
            shown = read_everything(directory, dice, capsys)
        except Exception as error:
            raise AssertionError(f"directory {number} of {part}") from error
        finally:
            signal.alarm(0)

        shown = shown.replace("\n", "").replace("\t", "")
        assert shown.isprintable(), (number, [char for char in shown if not char.isprintable()])
        assert len(shown) < 1 << 20, number


def read_everything(directory, dice, capsys):
    """What the two commands print. Errors are printed without control characters by cli/main.py."""
    try:
        why.main([str(directory), *dice.choice([[], ["--verbose"]])])
    except FlotaError:
        pass
    for place in (directory, directory / "node1"):
        running_workers(running_directory(str(place)))
        recorded_exception(str(place / "error.0.json"), Evidence(1))
    return capsys.readouterr().out
