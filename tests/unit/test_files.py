"""Files in a log directory that another user may have prepared."""

from __future__ import annotations

import os
import socket

import pytest

from flota.files import open_file

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


def make_link_to_a_directory(path):
    path.symlink_to(path.parent)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT, APPEND], ids=["read", "read-write", "append"])
@pytest.mark.parametrize("make", [make_fifo, make_socket, make_directory, make_link_to_a_directory])
def test_only_regular_files_are_opened_without_waiting(tmp_path, make, flags):
    make(tmp_path / "file")

    with pytest.raises(OSError, match="file is not a regular file"):
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
