"""A failure as the supervisor made it, completed with what is known of it."""

from __future__ import annotations

from types import SimpleNamespace

from flota.job.causes import EXCEPTION, EXITED, SHEPHERD_LOST
from flota.job.plan import plan_workers
from flota.job.report import FailedWorker
from flota.job.roster import Roster, Seat
from flota.job.spec import Command, JobSpec, LogSpec
from flota.run.evidence import FailureEvidence
from tests.rosters import ports_of

EPOCH = 1_000_000.0


def evidence(directory):
    """Of one worker of a round whose channel is closed."""
    spec = JobSpec(Command("script", "train.py", (), "python"), 1, LogSpec(str(directory)))
    roster = Roster(0, 2, (Seat("", "gpu01", "127.0.0.1", ports_of(1, 2, 3, 4)),))
    (worker,) = plan_workers(spec, roster, 0)
    found = FailureEvidence(spec, 0.0, EPOCH)
    found.last = SimpleNamespace(
        roster=roster,
        seat=0,
        plans=[SimpleNamespace(worker=worker)],
        marks=dict.fromkeys(worker.logs, (0, 0)),
        rotating=(),
        channel=SimpleNamespace(fd=-1),
    )
    return found, directory / "workerlog.0"


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
