"""Opens the files of a log directory, which another user may have prepared.
Runs in workers' interpreters as well: Python 3.8."""

from __future__ import annotations

import os
import stat
from errno import EINVAL, EISDIR, ELOOP, ENXIO


def open_file(path: str, flags: int, mode: int = 0o644) -> int:
    """Open a file of a log directory. Never waits, as for the other end of a FIFO, and opens only regular files and
    /dev/null.

    Another user may have prepared the directory, so links are followed only where no other user can have made them.
    Every file in a log directory is opened through this function.
    """
    flags |= os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        try:
            file = os.open(path, flags | os.O_NOFOLLOW, mode)
        except OSError as error:
            if error.errno != ELOOP:
                raise
            file = _open_linked(path, flags, mode)
    except OSError as error:
        if error.errno in (EISDIR, ENXIO):  # ENXIO: a FIFO without a reader, or a socket
            raise _not_regular(path) from None
        raise
    try:
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode) and info.st_rdev != os.stat(os.devnull).st_rdev:
            raise _not_regular(path)
        if info.st_nlink > 1 and not _is_private(os.stat(os.path.dirname(path) or ".")):
            raise OSError(ELOOP, f"{os.path.basename(path)} is a hard link, and other users may have made it")
        os.set_blocking(file, True)
    except OSError:
        os.close(file)
        raise
    return file


def _open_linked(path: str, flags: int, mode: int) -> int:
    directory, name = os.path.split(path)
    above = os.open(directory or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        link = os.stat(name, dir_fd=above, follow_symlinks=False)
        if not _is_private(os.fstat(above)) or link.st_uid not in (0, os.geteuid()):
            raise OSError(ELOOP, f"{name} is a link, and other users may have made it")
        return os.open(name, flags, mode, dir_fd=above)
    finally:
        os.close(above)


def _is_private(directory: os.stat_result) -> bool:
    """Whether only this user and root can write there."""
    return directory.st_uid in (0, os.geteuid()) and not directory.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _not_regular(path: str) -> OSError:
    return OSError(EINVAL, f"{os.path.basename(path)} is not a regular file")
