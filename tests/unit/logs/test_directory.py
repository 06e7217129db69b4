"""A log directory that another user may have prepared."""

from __future__ import annotations

import os
import stat

import pytest

from flota.errors import FlotaError, UnwritableLogDir
from flota.job.plan import plan_workers
from flota.job.roster import Ports, Roster, Seat
from flota.job.spec import Command, JobSpec, LogSpec
from flota.logs.directory import (
    LOCK,
    is_locked,
    open_append,
    open_directory,
    read_end,
    write_round_headers,
    write_whole,
)


@pytest.mark.parametrize("content", ["precious\n", " \nprecious"])
def test_a_lock_file_that_flota_did_not_write_is_kept(tmp_path, content):
    (tmp_path / LOCK).write_text(content)

    with pytest.raises(UnwritableLogDir, match="not written by flota"):
        open_directory(str(tmp_path), "default")
    assert (tmp_path / LOCK).read_text() == content


@pytest.mark.parametrize("content", ["", "job default, pid 7\n"])
def test_a_lock_file_of_flota_is_written_again(tmp_path, content):
    (tmp_path / LOCK).write_text(content)

    os.close(open_directory(str(tmp_path), "a"))

    assert (tmp_path / LOCK).read_text() == f"job a, pid {os.getpid()}\n"


def test_a_fifo_as_lock_is_an_error(tmp_path):
    os.mkfifo(tmp_path / LOCK)

    with pytest.raises(FlotaError, match="not a regular file"):
        open_directory(str(tmp_path), "default")
    assert is_locked(str(tmp_path)) is None


def test_a_temporary_file_is_never_written_through_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / f"report.json.{os.getpid()}.tmp").symlink_to(victim)

    write_whole(str(tmp_path / "report.json"), "new")

    assert (victim.read_text(), (tmp_path / "report.json").read_text()) == ("kept", "new")


def test_a_log_that_cannot_be_opened_is_reported_once(tmp_path):
    os.mkfifo(tmp_path / "file")
    problems = []

    log = open_append(str(tmp_path / "file"), problems.append)

    assert stat.S_ISCHR(os.fstat(log).st_mode)
    assert problems == [f"cannot write {tmp_path}/file: file is not a regular file"]
    os.close(log)


def test_the_end_of_a_file_is_read(tmp_path):
    (tmp_path / "file").write_text("0123456789")
    os.mkfifo(tmp_path / "fifo")

    assert read_end(str(tmp_path / "file"), 3) == b"789"
    assert read_end(str(tmp_path / "fifo"), 3) == read_end(str(tmp_path / "none"), 3) == read_end("a\0b", 3) == b""


def headers_in(directory, *, first, overwrite=False):
    spec = JobSpec(Command("script", "t.py", (), "python"), 1, LogSpec(str(directory), overwrite=overwrite))
    roster = Roster(0, 0, (Seat("", "host", "", Ports(("",), "", "", ""), (1,)),))
    return write_round_headers(spec, roster, plan_workers(spec, roster, 0), first=first)


def test_overwriting_does_not_truncate_the_target_of_a_refused_link(tmp_path):
    (tmp_path / "secret").write_text("kept")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "workerlog.0").symlink_to(tmp_path / "secret")
    (tmp_path / "log").chmod(0o777)

    with pytest.raises(UnwritableLogDir):
        headers_in(tmp_path / "log", first=True, overwrite=True)
    assert (tmp_path / "secret").read_text() == "kept"


def test_a_removed_directory_is_made_and_locked_again_at_a_restart(tmp_path):
    headers_in(tmp_path / "log", first=False)

    assert is_locked(str(tmp_path / "log"))


def test_a_missing_directory_is_an_error_at_the_start(tmp_path):
    with pytest.raises(UnwritableLogDir):
        headers_in(tmp_path / "log", first=True)
