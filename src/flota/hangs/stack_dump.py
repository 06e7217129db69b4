"""A sample of a process: the stacks of its threads, parsed from py-spy or faulthandler, and what it has used. Pure."""

from __future__ import annotations

import re

from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAIN = "MainThread"
# What a thread waits for in the kernel.
SLEEP, LOCK, SOCKET, PIPE, DISK, RUNNING = "sleep", "lock", "socket", "pipe", "disk", "running"
STOPPED = "T"  # a process's state, as in /proc
INSTALLED = ("site-packages/", "dist-packages/")
FAULTHANDLER_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
LIBRARIES = (*INSTALLED, "/lib/python3", "<frozen ", "/torchinductor_")


class Frame(NamedTuple):
    """`variables`: a hash of the local variables; `text`: the source line. Both only if known."""

    function: str
    file: str
    line: int
    variables: int = 0
    text: str = ""

    @property
    def is_own(self) -> bool:
        """Whether it is in the user's own code. Native frames are not."""
        return not any(part in self.file for part in LIBRARIES) and ".so" not in self.file and self.line > 0

    @property
    def place(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line}"


class Task(NamedTuple):
    """A thread as the kernel shows it. `wakes`: its voluntary context switches. `limit`: the timeout of the call in
    which it waits, in seconds; 0 if unknown."""

    call: str = ""  # what it waits for
    wakes: int = 0
    limit: float = 0.0


class Stack(NamedTuple):
    """One thread's frames, the innermost first."""

    thread: str
    frames: tuple[Frame, ...]
    has_gil: bool = False
    number: int = 0
    task: Task = Task()

    @property
    def own(self) -> Frame | None:
        """The innermost frame of the user's own code."""
        return next((frame for frame in self.frames if frame.is_own), None)


class Sample(NamedTuple):
    """`read`, `written`, `cpu`: since the process started. `children`: its descendants; those that run Python and are
    active have stacks."""

    pid: int
    stacks: tuple[Stack, ...] = ()
    state: str = "S"
    call: str = ""  # what the main thread waits for
    cpu: float = 0.0
    read: int = 0
    written: int = 0
    name: str = ""
    wakes: int = 0  # of the main thread, as in Task
    children: tuple[Sample, ...] = ()

    @property
    def main(self) -> Stack | None:
        return next((stack for stack in self.stacks if stack.thread == MAIN), None)

    def call_of(self, stack: Stack) -> str:
        return stack.task.call or (self.call if stack.thread == MAIN else "")


def parse_spy(text: str) -> tuple[Stack, ...]:
    """Parse the output of `py-spy dump --json`. Empty for any other text."""
    import json

    try:
        return tuple(_stack(thread) for thread in json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ()


def _stack(thread: Any) -> Stack:
    # If `threading` was never imported, threads have no names; the id of the main thread is the pid.
    is_main = thread["thread_name"] in (MAIN, None, "") and thread["os_thread_id"] in (thread["pid"], None)
    name = MAIN if is_main else thread["thread_name"] or f"thread {thread['os_thread_id']}"
    number = thread["os_thread_id"] or (thread["pid"] if is_main else 0)
    return Stack(name, tuple(map(_frame, thread["frames"])), thread["owns_gil"], number)


def _frame(frame: Any) -> Frame:
    held = tuple((one["name"], one["repr"]) for one in frame.get("locals") or ())
    return Frame(frame["name"], frame["filename"], frame["line"], hash(held) if held else 0)


def parse_faulthandler(lines: list[str]) -> tuple[Stack, ...]:
    """Parse the last output of Python's faulthandler after SIGABRT. Its `Current thread` is the one that received the
    signal, which is the main thread."""
    begins = [number for number, line in enumerate(lines) if line.startswith("Fatal Python error: ")]
    stacks: list[tuple[str, list[Frame]]] = []
    for line in lines[begins[-1] + 1 :] if begins else []:
        frame = FAULTHANDLER_FRAME.match(line)
        if line.startswith(("Thread 0x", "Current thread 0x")):
            stacks.append((MAIN if line.startswith("Current") else f"thread {line.split()[1]}", []))
        elif frame and stacks:
            stacks[-1][1].append(Frame(frame[3], frame[1], int(frame[2])))
        elif line and not line.startswith("  "):
            break
    return tuple(Stack(name, tuple(frames)) for name, frames in stacks)


def stacks_in_words(stacks: tuple[Stack, ...]) -> list[str]:
    """Lines for a file: the main thread first, and the innermost frame of each thread first."""
    lines: list[str] = []
    for stack in sorted(stacks, key=lambda stack: stack.thread != MAIN):
        lines.append(f"  {stack.thread}{' (has the GIL)' if stack.has_gil else ''}")
        lines += [f"    {frame.function} ({frame.file}:{frame.line})" for frame in stack.frames]
    return lines or ["  no stack available"]
