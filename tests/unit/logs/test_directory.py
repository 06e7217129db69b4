"""Files in a log directory that another user may have prepared."""

from __future__ import annotations

import os
import socket
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
    open_file,
    read_end,
    write_round_headers,
    write_whole,
)

APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def append_to(path, data=b"x"):
    file = open_file(str(path), APPEND)
    os.write(file, data)
    os.close(file)


def make_fifo(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def make_directory(path):
    path.mkdir()


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT, APPEND], ids=["read", "read-write", "append"])
@pytest.mark.parametrize("make", [make_fifo, make_socket, make_directory])
def test_only_regular_files_are_opened_without_waiting(tmp_path, make, flags):
    make(tmp_path / "file")

    with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
        open_file(str(tmp_path / "file"), flags)


def test_an_opened_file_blocks_and_is_not_inherited(tmp_path):
    file = open_file(str(tmp_path / "file"), APPEND)

    assert os.get_blocking(file)
    assert not os.get_inheritable(file)
    os.close(file)


def test_a_link_in_a_directory_of_this_user_is_followed(tmp_path):
    (tmp_path / "log").mkdir(mode=0o755)
    (tmp_path / "log" / "file").symlink_to(tmp_path / "elsewhere")

    append_to(tmp_path / "log" / "file")

    assert (tmp_path / "elsewhere").read_bytes() == b"x"


def test_a_log_may_be_linked_to_the_null_device(tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "file").symlink_to(os.devnull)

    append_to(tmp_path / "file")


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777], ids=["its group", "others", "others, sticky"])
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_no_link_is_followed_where_others_can_write(tmp_path, mode, link):
    (tmp_path / "secret").write_text("kept")
    (tmp_path / "log").mkdir()
    link(tmp_path / "secret", tmp_path / "log" / "file")
    (tmp_path / "log").chmod(mode)

    for flags in (APPEND, os.O_RDONLY):
        with pytest.raises(OSError, match=r"other users may have made it"):
            open_file(str(tmp_path / "log" / "file"), flags)
    assert (tmp_path / "secret").read_text() == "kept"


@pytest.mark.skipif(os.getuid() != 0, reason="changing owners needs root")
@pytest.mark.parametrize("owned", ["log", "log/file"])
def test_no_link_of_another_user_is_followed(tmp_path, owned):
    (tmp_path / "log").mkdir(mode=0o755)
    (tmp_path / "log" / "file").symlink_to(tmp_path / "secret")
    os.lchown(tmp_path / owned, 65534, 65534)

    with pytest.raises(OSError, match=r"other users may have made it"):
        open_file(str(tmp_path / "log" / "file"), APPEND)
    assert not (tmp_path / "secret").exists()


def test_a_hard_link_of_this_user_is_accepted(tmp_path):
    """Backups make such links."""
    tmp_path.chmod(0o755)
    (tmp_path / "backup").write_text("")
    os.link(tmp_path / "backup", tmp_path / "file")

    append_to(tmp_path / "file")


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
