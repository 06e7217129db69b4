"""Memory as the kernel accounts for it, in this cgroup (v1 and v2) and on the machine: how much is left, and whether
processes were ended for want of it.
"""

from __future__ import annotations

import os

from flota.values import NamedTuple
from flota.wording import bytes_in_words

LARGEST_RECORD = 8192
NO_LIMIT = 1 << 60
LIMITS = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"), 2: ("memory.max", "memory.current")}
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
        name = "memory.events" if self._version == 2 else "memory.oom_control"
        for line in read_lines(f"{self._directory}/{name}"):
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
        limit, peak = ("memory.max", "memory.peak")
        if self._version == 1:
            limit, peak = ("memory.limit_in_bytes", "memory.max_usage_in_bytes")
        parts = []
        most, used = (self._number(name) for name in (limit, peak))
        if most is not None and most < NO_LIMIT:
            had = f" and had {bytes_in_words(used)}" if used else ""
            parts.append(f"the cgroup may have {bytes_in_words(most)}{had}")
        machine = {line.partition(":")[0]: line for line in read_lines(f"{self._proc}/meminfo")}
        total, free = (_kilobytes(machine.get(name, "")) for name in ("MemTotal", "MemAvailable"))
        if total:
            parts.append(f"the machine has {bytes_in_words(free)} of {bytes_in_words(total)} left")
        return "; ".join(parts)

    def _number(self, name: str) -> int | None:
        return _number(f"{self._directory}/{name}") if self._directory else None


def available(proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> int:
    """Bytes that nobody uses, on this machine and in this process's cgroup and those above it."""
    left = [_kilobytes(line) for line in read_lines(f"{proc}/meminfo") if line.startswith("MemAvailable:")]
    directory, version = find_cgroup(proc, cgroups)
    limit, used = LIMITS.get(version, ("", ""))
    while directory and directory != cgroups:
        numbers = [_number(f"{directory}/{name}") for name in (limit, used)]
        if numbers[0] is not None and numbers[1] is not None:
            left.append(max(0, numbers[0] - numbers[1]))
        directory = os.path.dirname(directory)
    return min(left, default=0)


def find_cgroup(proc: str, cgroups: str) -> tuple[str, int]:
    """The directory that counts this process's memory, and its version; nothing where there is none.

    In a container without a cgroup namespace the path is the host's: then the mounted root is the container's own.
    """
    for line in read_lines(f"{proc}/self/cgroup"):
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        roots = []
        if "memory" in names.split(","):
            roots, version, file = [f"{cgroups}/memory"], 1, "memory.oom_control"
        elif number == "0" and not names:
            roots, version, file = [cgroups, f"{cgroups}/unified"], 2, "memory.events"
        for root in roots:
            for directory in (f"{root}{path.rstrip('/')}", root):
                if os.path.exists(f"{directory}/{file}"):
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
