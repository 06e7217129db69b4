"""Memory as the kernel accounts for it, in this cgroup (v1 and v2) and on the machine: how much is left, and whether
processes were ended for want of it.
"""

from __future__ import annotations

import os

from flota.humanize import bytes_in_words
from flota.values import NamedTuple

LARGEST_RECORD = 8192
NO_LIMIT = 1 << 60
# By the version of the cgroup: the files with its limit, what it uses now, the most it has used, and its kills.
FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"),
    2: ("memory.max", "memory.current", "memory.peak", "memory.events"),
}
RECORD = "ut of memory: Killed process "  # of the whole machine, or of a cgroup; the number follows
ALL_PROCESSES = "pid:[4026531836]"  # the namespace whose numbers the kernel's log has
A_WHILE = 60.0  # seconds


class MemoryEvidence(NamedTuple):
    """`killed`: how it is known that the kernel did it, empty if it is not; `counted`: whether it would be known."""

    killed: str
    counted: bool
    words: str  # limit and peak, and what the machine has


class MemoryWatch:
    """Made at the beginning of a round; asked when a worker was killed, and told that time passes until then. The paths
    are where Linux has them."""

    def __init__(self, proc: str = "/proc", cgroups: str = "/sys/fs/cgroup", log: str = "/dev/kmsg") -> None:
        self._proc = proc
        self._directory, self._version = find_cgroup(proc, cgroups)
        self._before = self._lately = self._count()
        self._next = 0.0
        self._named: set[str] = set()  # all that the kernel's log has named since: it can be read but once
        self._log = -1
        try:
            if os.readlink(f"{proc}/self/ns/pid") == ALL_PROCESSES:
                self._log = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
                os.lseek(self._log, 0, os.SEEK_END)
        except OSError:
            pass  # not for everybody to read

    def close(self) -> None:
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    def move_on(self, now: float) -> None:
        """Forget the kills of long ago: they were others', such as a data loader's that was replaced. One that has just
        been counted may be that of a worker whose end is about to be heard of."""
        if now >= self._next:
            self._next = now + A_WHILE
            self._before, self._lately = self._lately, self._count()

    def look(self, pid: int) -> MemoryEvidence:
        """What is known of this process, which was killed a moment ago; 0: its number is not known."""
        count = self._count()
        self._read_log()
        killed = ""
        if str(pid) in self._named:
            killed = "the kernel's log names it"
        elif count is not None and self._before is not None and count > self._before and not (pid and self._named):
            more = count - self._before
            killed = f"the kernel counts {more} such kill{'s' * (more > 1)} in its cgroup in the last minutes"
        return MemoryEvidence(killed, count is not None or self._log >= 0, self._in_words())

    def _count(self) -> int | None:
        if not self._directory:
            return None
        for line in read_lines(f"{self._directory}/{FILES[self._version][3]}"):
            word, _, number = line.partition(" ")
            if word == "oom_kill" and number.strip().isdigit():
                return int(number)
        return None

    def _read_log(self) -> None:
        while self._log >= 0:
            try:
                record = os.read(self._log, LARGEST_RECORD).decode(errors="replace")
            except BrokenPipeError:
                continue  # some were overwritten before we read them
            except OSError:
                break  # nothing more
            if not record:
                break
            names = (entry.partition(RECORD)[2].partition(" ")[0].rstrip(",") for entry in record.splitlines())
            self._named.update(filter(None, names))

    def _in_words(self) -> str:
        parts = []
        limit, _, peak, _ = FILES.get(self._version, ("", "", "", ""))
        most, used = (_number(f"{self._directory}/{name}") for name in (limit, peak))
        if most is not None and most < NO_LIMIT:
            had = f" and had {bytes_in_words(used)}" if used else ""
            parts.append(f"the cgroup may have {bytes_in_words(most)}{had}")
        machine = {line.partition(":")[0]: line for line in read_lines(f"{self._proc}/meminfo")}
        total, free = (_kilobytes(machine.get(name, "")) for name in ("MemTotal", "MemAvailable"))
        if total:
            parts.append(f"the machine has {bytes_in_words(free)} of {bytes_in_words(total)} left")
        return "; ".join(parts)


def available(proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> int:
    """Bytes that nobody uses, on this machine and in this process's cgroup and those above it."""
    left = [_kilobytes(line) for line in read_lines(f"{proc}/meminfo") if line.startswith("MemAvailable:")]
    directory, version = find_cgroup(proc, cgroups)
    while directory and directory != cgroups:
        limit, used = (_number(f"{directory}/{name}") for name in FILES[version][:2])
        if limit is not None and used is not None:
            left.append(max(0, limit - used))
        directory = os.path.dirname(directory)
    return min(left, default=0)


def find_cgroup(proc: str, cgroups: str) -> tuple[str, int]:
    """The directory that counts this process's memory, and its version; nothing where there is none.

    In a container without a cgroup namespace the path is the host's: then the mounted root is the container's own.
    """
    for line in read_lines(f"{proc}/self/cgroup"):
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        version = 1 if "memory" in names.split(",") else 2 if number == "0" and not names else 0
        for root in {1: [f"{cgroups}/memory"], 2: [cgroups, f"{cgroups}/unified"]}.get(version, []):
            for directory in (f"{root}{path.rstrip('/')}", root):
                if os.path.exists(f"{directory}/{FILES[version][3]}"):
                    return directory, version
    return "", 0


def read_lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []


def _number(path: str) -> int | None:
    lines = read_lines(path)
    return int(lines[0]) if lines and lines[0].strip().isdigit() else None


def _kilobytes(line: str) -> int:
    words = line.split()
    return int(words[1]) * 1024 if len(words) > 1 and words[1].isdigit() else 0
