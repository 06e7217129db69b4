"""Tells all that it can see of how it was started; a letter among its arguments says how it ends."""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import signal
import sys
import threading
import time

VARIES = (
    "PORT",
    "ENDPOINT",
    "MASTER",
    "TF_CONFIG",
    "CHANNEL",
    "SNAPSHOT",
    "RUN_ID",
    "COORDINATOR",
    "no_proxy",
    "NO_PROXY",
)


class Pair:
    """Something of the script's own to be pickled."""

    def __init__(self, one: int, other: int) -> None:
        self.one, self.other = one, other


def total(pair: Pair) -> tuple[int, str]:
    return pair.one + pair.other, __name__


def descriptors() -> list[str]:
    paths = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            paths.append(f"{fd} {os.readlink(f'/proc/self/fd/{fd}')}")
        except OSError:
            continue
    return sorted(path for path in paths if "/proc/" not in path)


def reflection() -> dict[str, object]:
    main = sys.modules["__main__"]
    opened = descriptors()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pickled = pool.map(total, [Pair(1, 2)])
    return {
        "argv": sys.argv,
        "orig_argv": getattr(sys, "orig_argv", None),
        "path": sys.path,
        "flags": str(sys.flags),
        "main": [
            main.__name__,
            main.__file__,
            str(main.__spec__).partition("object at")[0],
            main.__package__,
            sorted(vars(main)),
        ],
        "frames": _depth(),
        "cwd": os.getcwd(),
        "umask": [os.umask(0o22), os.umask(0o22)],
        "env": {k: v for k, v in os.environ.items() if not any(word in k for word in VARIES)},
        "signals": [str(signal.getsignal(number)).partition(" at 0x")[0] for number in sorted(signal.valid_signals())],
        "mask": str(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "descriptors": opened,
        "leads": [os.getpid() == os.getpgid(0), os.getpid() == os.getsid(0)],
        "parent": open(f"/proc/{os.getppid()}/comm").read(),
        "nice": os.nice(0),
        "threads": threading.active_count(),
        "name": open("/proc/self/comm").read(),
        "command": open("/proc/self/cmdline").read(),
        "streams": [str(sys.stdin.mode), sys.stdout.line_buffering, sys.stdout.encoding, sys.stderr.errors],
        "meta_path": [str(finder).partition(" at 0x")[0] for finder in sys.meta_path],
        "pickled": pickled,
    }


def _depth() -> int:
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def main() -> None:
    ending = sys.argv[1]
    atexit.register(print, "at exit")
    print(json.dumps(reflection(), sort_keys=True))
    threading.Thread(target=lambda: (time.sleep(0.1), print("thread ended"))).start()
    if ending == "raises":
        raise ValueError("of its own")
    if ending == "interrupted":
        raise KeyboardInterrupt
    if ending == "exits":
        sys.exit(7)
    if ending == "words":
        sys.exit("some words")
    if ending == "hard":
        os._exit(9)
    if ending == "killed":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
