"""A failure as the supervisor made it, completed with what is known of it."""

from __future__ import annotations

from errno import EAGAIN, ENOENT
from types import SimpleNamespace

import pytest

from flota.job.causes import EXCEPTION, EXITED, NOT_STARTED, SHEPHERD_LOST
from flota.job.plan import plan_workers
from flota.job.report import FAILED, FailedWorker, Verdict
from flota.job.roster import Roster, Seat
from flota.job.spec import Command, JobSpec, LogSpec
from flota.run.evidence import FailureEvidence
from flota.supervise.events import StartFailed, WorkerExited
from tests.rosters import ports_of

EPOCH = 1_000_000.0
STACK = "Traceback (most recent call last):\n  File 'x'\n"


def evidence(directory, workers=1):
    """Of the workers of a round whose channel is closed, and the log of the last one."""
    spec = JobSpec(Command("script", "train.py", (), "python"), workers, LogSpec(str(directory)))
    roster = Roster(0, 2, (Seat("", "gpu01", "127.0.0.1", ports_of(*range(1, workers + 4))),))
    planned = plan_workers(spec, roster, 0)
    found = FailureEvidence(spec, 0.0, EPOCH)
    found.last = SimpleNamespace(
        roster=roster,
        seat=0,
        plans=[SimpleNamespace(worker=worker) for worker in planned],
        marks={path: (0, 0) for worker in planned for path in worker.logs},
        rotating=(),
        channel=SimpleNamespace(fd=-1),
    )
    return found, directory / f"workerlog.{workers - 1}"


def test_a_failure_is_completed_with_where_when_and_of_what(tmp_path):
    found, log = evidence(tmp_path)
    log.write_text("Traceback (most recent call last):\n  File 'x'\nValueError: boom\n")

    failed = found.complete(FailedWorker(worker=0, code=1, cause=EXITED, at=5.0, final=True))

    assert (failed.rank, failed.node, failed.attempt, failed.at) == (0, "gpu01", 2, EPOCH + 5.0)
    assert (failed.cause, failed.exception, failed.log, failed.final) == (EXCEPTION, "ValueError", str(log), True)


def test_a_failure_of_no_worker_has_no_rank_and_no_log(tmp_path):
    found, _ = evidence(tmp_path)

    failed = found.complete(FailedWorker(code=-9, cause=SHEPHERD_LOST))

    assert (failed.rank, failed.node, failed.log, failed.cause) == (-1, "gpu01", "", SHEPHERD_LOST)


def test_a_log_is_diagnosed_again_only_if_it_has_grown(tmp_path):
    found, log = evidence(tmp_path)
    failure = FailedWorker(worker=0, code=1, cause=EXITED)
    log.write_text("Traceback (most recent call last):\n  File 'x'\nValueError: boom\n")
    first = found.complete(failure).exception

    log.write_text(log.read_text().replace("ValueError", "IndexError"))
    same_size = found.complete(failure).exception
    log.write_text(f"{log.read_text()}bye\n")
    grown = found.complete(failure).exception

    assert (first, same_size, grown) == ("ValueError", "ValueError", "IndexError")


@pytest.mark.parametrize(
    ("output", "code", "listed"),
    [
        (f"{STACK}RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer\n", -15, "secondary"),
        (f"{STACK}RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer\n", 0, "stopped"),
        (f"{STACK}KeyboardInterrupt\n", 1, "stopped"),
        ("Connection closed by peer\n", -15, "stopped"),
        ("step 3\n", -15, "stopped"),
    ],
)
def test_a_worker_that_raised_because_of_another_before_it_was_stopped_failed_as_a_consequence(
    tmp_path, output, code, listed
):
    found, log = evidence(tmp_path, workers=2)
    (tmp_path / "workerlog.0").write_text(f"{STACK}ValueError: bad shard\n")
    log.write_text(output)
    found.note(WorkerExited(0, 1, asked_to_stop=False, at=5.0))
    found.note(WorkerExited(1, code, asked_to_stop=True, at=5.1))
    failure = FailedWorker(worker=0, code=1, cause=EXITED, at=5.0)

    found.find([failure])
    report = found.report(Verdict(FAILED, 1, 0, (failure,)))

    assert [one.rank for one in report.failed] == [0]
    assert {"secondary": [one.rank for one in report.secondary], "stopped": [rank for _, rank in report.stopped]} == {
        "secondary": [],
        "stopped": [],
        listed: [1],
    }


@pytest.mark.parametrize(("error", "hint"), [(EAGAIN, "raise the process limit"), (ENOENT, "run `flota --dry-run")])
def test_the_hint_for_a_worker_that_did_not_start_fits_the_error(tmp_path, error, hint):
    found, _ = evidence(tmp_path)
    found.note(StartFailed(0, error, 5.0))

    failed = found.complete(FailedWorker(worker=0, code=127, cause=NOT_STARTED))

    assert failed.hint.startswith(hint)
