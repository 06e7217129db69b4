"""A place with its own network, hostname and mounts: a thread that lives there, and starts processes there.

Namespaces belong to threads. A thread that stays in them starts a process as quickly as anywhere, needs no code between
fork and exec, and keeps the namespaces for as long as it lives; there is nothing to name and nothing to remove.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from tests.lab import guard, kernel

P = ParamSpec("P")
T = TypeVar("T")


class Namespace:
    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory / name
        self.directory.mkdir()
        self.started: list[subprocess.Popen[Any]] = []
        self.inode = 0
        self.thread = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.call(self._enter)

    def call(self, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call a function there. A socket that it makes belongs to that network, wherever it is used."""
        return self._thread.submit(function, *args, **options).result()

    def popen(
        self,
        argv: Sequence[object],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        **options: Any,
    ) -> subprocess.Popen[Any]:
        """Start a command there; the Popen's process is the command itself."""
        variables = dict(os.environ if env is None else env)
        if variables.get("HOSTNAME", "") == os.environ.get("HOSTNAME", ""):
            variables["HOSTNAME"] = self.name  # inherited, and so another machine's
        words = [str(word) for word in argv]
        # The thread's own directory became / when it got its own mounts.
        options = {"stdin": subprocess.DEVNULL, "cwd": cwd or os.getcwd(), "env": variables, **options}
        process = self.call(lambda: subprocess.Popen(words, **options))
        self.started.append(process)
        return process

    def run(self, argv: Sequence[object], *, timeout: float = 30.0, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command there to its end; its output is text."""
        given = options.pop("input", None)
        streams = ["stdout", "stderr"] if given is None else ["stdin", "stdout", "stderr"]
        pipes = dict.fromkeys(streams, subprocess.PIPE)
        with self.popen(argv, **{**pipes, "text": True, **options}) as process:
            try:
                out, err = process.communicate(given, timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def ip(self, *lines: str) -> None:
        """Give lines to `ip`, all in one go."""
        result = self.run(["ip", "-batch", "-"], input="".join(f"{line}\n" for line in lines))
        if result.returncode:
            raise OSError(f"{self.name}: ip: {result.stderr.strip()}, in {lines}")

    def processes(self) -> list[int]:
        return guard.processes_in({self.inode})

    def crash(self) -> None:
        """SIGKILL to everything that runs there."""
        guard.end_all({self.inode})

    def close(self) -> None:
        """Give the namespaces up; what ran there was ended before."""
        self._thread.shutdown()
        for process in self.started:
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()

    def _enter(self) -> None:
        kernel.unshare(kernel.NEW_NETWORK | kernel.NEW_HOSTNAME | kernel.NEW_MOUNTS)
        kernel.mount("", "/", flags=kernel.RECURSIVE | kernel.SLAVE)  # or the machine would get these mounts too
        socket.sethostname(self.name)
        self._mount()
        self.thread = threading.get_native_id()
        self.inode = os.stat("/proc/thread-self/ns/net").st_ino

    def _mount(self) -> None:
        """A /sys with this network's interfaces; the control groups are mounts in it, and stay."""
        groups = str(self.directory)
        kernel.mount("/sys/fs/cgroup", groups, flags=kernel.BIND | kernel.RECURSIVE)
        kernel.mount("sysfs", "/sys", "sysfs")
        kernel.mount(groups, "/sys/fs/cgroup", flags=kernel.MOVE)
