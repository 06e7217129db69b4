"""Namespaces for network, hostname and mounts: a thread that stays in them and starts processes there.

Namespaces belong to threads. A thread that stays in them starts processes at no extra cost, needs no code between
fork and exec, and keeps the namespaces as long as it lives. So they need no names and no clean-up.
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
        """Call a function there. A socket that it creates belongs to that network, wherever it is used."""
        return self._thread.submit(function, *args, **options).result()

    def popen(
        self,
        argv: Sequence[object],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        **options: Any,
    ) -> subprocess.Popen[Any]:
        """Start a command there. The Popen object refers to the command itself."""
        variables = dict(os.environ if env is None else env)
        if variables.get("HOSTNAME", "") == os.environ.get("HOSTNAME", ""):
            variables["HOSTNAME"] = self.name  # the inherited value is that of the machine
        words = [str(word) for word in argv]
        # The thread's working directory became / with the new mount namespace.
        options = {"stdin": subprocess.DEVNULL, "cwd": cwd or os.getcwd(), "env": variables, **options}
        process = self.call(lambda: subprocess.Popen(words, **options))
        self.started.append(process)
        return process

    def run(self, argv: Sequence[object], *, timeout: float = 30.0, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command there and wait for it. Output is text."""
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
        """Pass lines to `ip -batch`."""
        result = self.run(["ip", "-batch", "-"], input="".join(f"{line}\n" for line in lines))
        if result.returncode:
            raise OSError(f"{self.name}: ip: {result.stderr.strip()}, in {lines}")

    def processes(self) -> list[int]:
        return guard.processes_in({self.inode})

    def crash(self) -> None:
        """SIGKILL to every process there."""
        guard.end_all({self.inode})

    def close(self) -> None:
        """Release the namespaces, after all processes there have been killed."""
        self._thread.shutdown()
        for process in self.started:
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()

    def _enter(self) -> None:
        kernel.unshare(kernel.NEW_NETWORK | kernel.NEW_HOSTNAME | kernel.NEW_MOUNTS)
        kernel.mount("", "/", flags=kernel.RECURSIVE | kernel.SLAVE)  # otherwise the machine would see these mounts
        socket.sethostname(self.name)
        self._mount()
        self.thread = threading.get_native_id()
        self.inode = os.stat("/proc/thread-self/ns/net").st_ino

    def _mount(self) -> None:
        """Mount a /sys with the interfaces of this network; keep the cgroups, which are mounted below it."""
        groups = str(self.directory)
        kernel.mount("/sys/fs/cgroup", groups, flags=kernel.BIND | kernel.RECURSIVE)
        kernel.mount("sysfs", "/sys", "sysfs")
        kernel.mount(groups, "/sys/fs/cgroup", flags=kernel.MOVE)
