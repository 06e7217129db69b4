"""Reads a process from /proc: what it waits for, what it has used, and its descendants."""

import os
from math import inf

from flota.hangs.stack_dump import DISK, LOCK, PIPE, RUNNING, SLEEP, SOCKET, Sample, Task
from flota.host.kill_tree import descendants_of

TICKS = os.sysconf("SC_CLK_TCK")
MOST_CHILDREN = 64
FILE = "file"  # depends on the type of the open file
SELECT, POLL, EPOLL = "select", "poll", "epoll"  # without descriptors they are used to sleep, as in old Python versions
LIMITS = {SELECT: 4, POLL: 2, EPOLL: 3}  # the number of the timeout argument
MILLISECONDS = {"x86_64": (7, 232, 281), "aarch64": (22,)}  # calls whose timeout is a number of milliseconds
NUMBERS = (  # of system calls, on x86_64 and aarch64
    (SLEEP, (35, 230), (101, 115)),
    (LOCK, (202,), (98,)),
    (FILE, (0, 1, 17, 18, 19, 20), (63, 64, 65, 66, 67, 68)),
    (SOCKET, (42, 43, 44, 45, 46, 47, 288, 299), (202, 203, 206, 207, 211, 212, 242, 243)),
    (EPOLL, (232, 281), (22,)),
    (SELECT, (23, 270), (72,)),
    (POLL, (7, 271), (73,)),
    (DISK, (26, 74, 75, 162, 277, 306), (81, 82, 83, 84, 227, 267)),
)
CALLS = {
    "x86_64": {number: kind for kind, numbers, _ in NUMBERS for number in numbers},
    "aarch64": {number: kind for kind, _, numbers in NUMBERS for number in numbers},
}
OPENED = (("socket:", SOCKET), ("pipe:", PIPE), ("/dev/pts/", PIPE), ("/dev/tty", PIPE))


def observe(pid: int) -> Sample | None:
    """Sample a process and its descendants. Returns None if it is gone."""
    own = _observe_alone(pid)
    if own is None:
        return None
    found = (_observe_alone(child) for child in descendants_of(pid, MOST_CHILDREN)[:MOST_CHILDREN])
    return own._replace(children=tuple(child for child in found if child))


def _observe_alone(pid: int) -> Sample | None:
    stat = _read(f"/proc/{pid}/stat")
    head, _, rest = stat.rpartition(")")
    fields = rest.split()
    if not fields or fields[0] in "ZX":
        return None
    counters = dict(line.split(": ") for line in _read(f"/proc/{pid}/io").splitlines())

    def largest(*names: str) -> int:
        return max(int(counters.get(name, 0)) for name in names)

    return Sample(
        pid,
        state=fields[0],
        call=_call(str(pid))[0],
        cpu=(int(fields[11]) + int(fields[12])) / TICKS,
        # Mapped files are counted in the second only, and data in the page cache in the first only.
        read=largest("rchar", "read_bytes"),
        written=largest("wchar", "write_bytes"),
        name=head.partition("(")[2],
        wakes=_wakes(str(pid)),
    )


def task_of(pid: int, thread: int) -> Task:
    """Sample a thread. Empty if it is gone."""
    path = f"{pid}/task/{thread}"
    call, limit = _call(path)
    return Task(call, _wakes(path), limit)


def _wakes(path: str) -> int:
    status = dict(line.split(":", 1) for line in _read(f"/proc/{path}/status").splitlines())
    return int(status.get("voluntary_ctxt_switches", 0))


def _call(path: str) -> tuple[str, float]:
    """What a thread waits for in the kernel, and for how long at most, as in Task; empty if unknown."""
    number, *args = (_read(f"/proc/{path}/syscall") or "-").split()
    if number == "running":
        return RUNNING, 0.0
    kind = CALLS.get(os.uname().machine, {}).get(int(number) if number.isdecimal() else -1, "")
    if kind == FILE:
        target = _link(f"/proc/{path}/fd/{int(args[0], 16)}")
        return next((kind for prefix, kind in OPENED if target.startswith(prefix)), ""), inf
    if kind in (SELECT, POLL, EPOLL):
        waits = SOCKET if kind == EPOLL or int(args[kind == POLL], 16) else SLEEP
        return waits, _limit(int(number), int(args[LIMITS[kind]], 16))
    if not kind and "nanosleep" in _read(f"/proc/{path}/wchan"):
        return SLEEP, 0.0  # an interrupted one is restarted under another number
    return kind, inf if kind == SOCKET else 0.0


def _limit(number: int, value: int) -> float:
    """The timeout in seconds. If it is a pointer, only whether there is a timeout is known: 0 or infinity."""
    if number in MILLISECONDS.get(os.uname().machine, ()):
        return inf if value & 1 << 31 else value / 1000
    return 0.0 if value else inf


def runs_python(pid: int) -> bool:
    return os.path.basename(_link(f"/proc/{pid}/exe")).startswith("python")


def line_of(pid: int, file: str, number: int) -> str:
    """The current text of a line in a file that a process runs; empty if it cannot be read."""
    try:
        with open(file if file.startswith("/") else f"/proc/{pid}/cwd/{file}", errors="replace") as lines:
            found = next((line for count, line in enumerate(lines, 1) if count == number), "")
    except OSError:
        return ""
    return "".join(letter for letter in found.strip() if letter.isprintable())[:80]


def _read(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
