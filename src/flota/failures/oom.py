"""Kills by the OOM killer, in this cgroup (v1 and v2) and on the machine."""

from __future__ import annotations

import os

from flota.free_memory import FILES, find_cgroup, machine_memory, read_lines, read_number
from flota.humanize import bytes_in_words
from flota.values import NamedTuple

LARGEST_RECORD = 8192
NO_LIMIT = 1 << 60
RECORD = "ut of memory: Killed process "  # for the machine or a cgroup; the pid follows
ALL_PROCESSES = "pid:[4026531836]"  # the pid namespace that the kernel's log uses
RECENT = 60.0  # seconds


class MemoryEvidence(NamedTuple):
    """`killed`: the evidence for an OOM kill, or empty; `counted`: whether OOM kills can be seen on this machine."""

    killed: str
    counted: bool
    words: str  # the cgroup's limit and peak, and the machine's memory


class MemoryWatch:
    """Created at the start of a round and queried when a worker was killed. Until then, call `forget_old_kills`
    regularly."""

    def __init__(self, proc: str = "/proc", cgroups: str = "/sys/fs/cgroup", log: str = "/dev/kmsg") -> None:
        self._proc = proc
        self._directory, self._version = find_cgroup(proc, cgroups)
        self._before = self._recent = self._count()
        self._next_count = 0.0
        self._logged_pids: set[str] = set()  # killed since, by the kernel's log, which can be read only once
        self._log = -1
        try:
            if os.readlink(f"{proc}/self/ns/pid") == ALL_PROCESSES:
                self._log = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
                os.lseek(self._log, 0, os.SEEK_END)
        except OSError:
            pass  # not readable for this user

    def close(self) -> None:
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    def forget_old_kills(self, now: float) -> None:
        """Forget old kills: they were of other processes, such as a data loader that was replaced. Keep recent ones: a
        killed worker's exit may not have been reported yet."""
        if now >= self._next_count:
            self._next_count = now + RECENT
            self._before, self._recent = self._recent, self._count()

    def evidence_for(self, pid: int) -> MemoryEvidence:
        """The evidence for a process that was just killed. `pid` 0: its pid is unknown."""
        count = self._count()
        self._read_log()
        killed = ""
        if str(pid) in self._logged_pids:
            killed = "the kernel's log names it"
        elif (
            count is not None and self._before is not None and count > self._before and not (pid and self._logged_pids)
        ):
            more = count - self._before
            killed = f"{more} OOM kill{'s' * (more > 1)} in its cgroup in the last few minutes"
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
                continue  # some records were overwritten before they were read
            except OSError:
                break  # nothing more
            if not record:
                break
            names = (entry.partition(RECORD)[2].partition(" ")[0].rstrip(",") for entry in record.splitlines())
            self._logged_pids.update(filter(None, names))

    def _in_words(self) -> str:
        parts = []
        limit, _, peak, _ = FILES.get(self._version, ("", "", "", ""))
        most, used = (read_number(f"{self._directory}/{name}") for name in (limit, peak))
        if most is not None and most < NO_LIMIT:
            peak_words = f", peak {bytes_in_words(used)}" if used else ""
            parts.append(f"cgroup limit {bytes_in_words(most)}{peak_words}")
        machine = machine_memory(self._proc)
        total, free = (machine.get(name, 0) for name in ("MemTotal", "MemAvailable"))
        if total:
            parts.append(f"machine: {bytes_in_words(free)} of {bytes_in_words(total)} available")
        return "; ".join(parts)
