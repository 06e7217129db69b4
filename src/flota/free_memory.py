"""How much memory may still be taken, on this machine and in this cgroup (v1 and v2)."""

from __future__ import annotations

import os

# By cgroup version: the files with its limit, current usage, peak usage and OOM kills.
FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"),
    2: ("memory.max", "memory.current", "memory.peak", "memory.events"),
}


def available(proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> int:
    """Bytes available on this machine, in this process's cgroup and in its parent cgroups: the smallest."""
    left = [amount for name, amount in machine_memory(proc).items() if name == "MemAvailable"]
    directory, version = find_cgroup(proc, cgroups)
    while directory and directory != cgroups:
        limit, used = (read_number(f"{directory}/{name}") for name in FILES[version][:2])
        if limit is not None and used is not None:
            left.append(max(0, limit - used))
        directory = os.path.dirname(directory)
    return min(left, default=0)


def machine_memory(proc: str = "/proc") -> dict[str, int]:
    """Bytes of this machine's memory by kind, such as MemTotal and MemAvailable; empty if it cannot be read."""
    return {line.partition(":")[0]: kilobytes(line) for line in read_lines(f"{proc}/meminfo")}


def find_cgroup(proc: str, cgroups: str) -> tuple[str, int]:
    """The directory of this process's memory cgroup and its version; `"", 0` if there is none.

    In a container without a cgroup namespace the path is the host's: then the mounted root is the container's cgroup.
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


def read_number(path: str) -> int | None:
    lines = read_lines(path)
    return int(lines[0]) if lines and lines[0].strip().isdigit() else None


def kilobytes(line: str) -> int:
    words = line.split()
    return int(words[1]) * 1024 if len(words) > 1 and words[1].isdigit() else 0
