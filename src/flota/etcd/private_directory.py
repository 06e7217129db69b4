"""The directory of a node's etcd: certificates, and the data, which is never used twice.

It is locked as long as the node or its etcd lives. After both were killed, the cleaner process or the next flota on
this machine removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from tempfile import gettempdir, mkdtemp

from flota.errors import NoRoomForEtcd
from flota.free_memory import available
from flota.humanize import bytes_in_words

PREFIX = "flota-etcd-"
LOCK = "lock"
MEMORY = "/dev/shm"  # noqa: S108  each node makes its own directory there
NEEDED = 512 << 20  # bytes; two log files of 64 MB are there from the start
ENOUGH_MEMORY = 8 << 30  # bytes available beside that: training needs memory more than etcd does


class PrivateDirectory:
    """`path`: the directory. `lock`: a descriptor, which etcd inherits."""

    def __init__(self, environ: Mapping[str, str], *, needed: int = NEEDED) -> None:
        temporary = environ.get("TMPDIR") or gettempdir()
        sweep((MEMORY, temporary))
        parent = choose_parent(_free(MEMORY), available(), _free(temporary), needed, temporary)
        try:
            draft = mkdtemp(prefix=f".{PREFIX}", dir=parent)
            self.lock = os.open(f"{draft}/{LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self.lock, fcntl.LOCK_EX)
            self.path = f"{parent}/{os.path.basename(draft)[1:]}"
            os.rename(draft, self.path)  # locked before `sweep` of another node can see it
        except OSError as error:
            raise NoRoomForEtcd(f"{parent}: {error.strerror}", bytes_in_words(needed)) from None
        self._used = 0

    def new_data(self) -> str:
        """A path that no etcd has used. What the last one left is removed."""
        if self._used:
            shutil.rmtree(self._data(), ignore_errors=True)
        self._used += 1
        return self._data()

    def _data(self) -> str:
        return f"{self.path}/data.{self._used}"

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def choose_parent(in_memory: int, memory: int, on_disk: int, needed: int, temporary: str) -> str:
    """In memory if there is plenty: writes to a disk wait while a checkpoint is being written to it."""
    if in_memory >= needed and memory >= ENOUGH_MEMORY:
        return MEMORY
    if on_disk >= needed:
        return temporary
    free = f"{bytes_in_words(on_disk)} free in {temporary}, {bytes_in_words(min(memory, in_memory))} in {MEMORY}"
    raise NoRoomForEtcd(free, bytes_in_words(needed))


def sweep(parents: Iterable[str]) -> None:
    """Remove what this user's nodes have left after they and their etcd were killed."""
    for parent in set(parents):
        try:
            names = [name for name in os.listdir(parent) if name.startswith(PREFIX)]
        except OSError:
            continue
        for name in names:
            if _is_own_directory(path := f"{parent}/{name}") and is_unlocked(path):
                shutil.rmtree(path, ignore_errors=True)


def is_unlocked(path: str) -> bool:
    """Whether neither a node nor its etcd uses the directory."""
    try:
        lock = os.open(f"{path}/{LOCK}", os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False  # it was created just now, or is not a node's
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _is_own_directory(path: str) -> bool:
    try:
        info = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()


def _free(path: str) -> int:
    try:
        info = os.statvfs(path)
    except OSError:
        return 0
    return info.f_bavail * info.f_frsize if os.access(path, os.W_OK) else 0
