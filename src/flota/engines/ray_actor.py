"""Runs in a Ray actor: one node of the job, as a process whose output the driver reads."""

from __future__ import annotations

import os
import subprocess
import sys
from threading import Condition, Thread

from flota.engines.command_with_lifeline import describe_command

SET_BY_RAY = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT")  # for tasks: one thread, and Ray's own debugger
MOST_UNREAD = 1 << 20  # bytes of output that wait for the driver; flota does not block on a full pipe
LONGEST_READ = 10.0  # seconds


class NodeActor:
    """One node. Its methods are called from several threads: `read` waits while `send` must not."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._unread: list[tuple[int, bytes]] = []  # stream number, data
        self._open = 0
        self._process: subprocess.Popen[bytes] | None = None

    def find_address(self) -> tuple[str, int]:
        """This host's address in the cluster, and a port that is free there. Bundle 0 may be on any host."""
        import ray

        from flota.host.ports import hold_free, port_of, release

        address = ray.util.get_node_ip_address()
        held = hold_free(1, address)
        port = port_of(held[0])
        release(held)
        return address, int(port)

    def run(self, words: list[str], directory: str, token: str) -> str:
        """Start the node; without a directory in Ray's copy. Returns a message if the directory is not on this host."""
        if directory and not os.path.isdir(directory):
            import ray

            # `ray job submit --working-dir` has copied the directory, here to another place.
            if not ray.get_runtime_context().runtime_env.get("working_dir"):
                return f"{directory} does not exist on {ray.util.get_node_ip_address()}"
            directory = ""
        variables = {**_environment_without_rays(), "FLOTA_TOKEN": token}
        # In a session of its own, with the lifeline as the only child: Ray kills the group and the children of an actor
        # that ends, while the node needs SIGTERM and time to save.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "flota.engines.command_with_lifeline"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        streams = (self._process.stdout, self._process.stderr)
        self._open = len(streams)
        for number, stream in enumerate(streams, 1):
            assert stream is not None
            Thread(target=self._collect, args=(number, stream.fileno()), daemon=True).start()
        self._write(describe_command([sys.executable, "-m", "flota", *words], directory or os.getcwd(), variables))
        return ""

    def read(self) -> tuple[list[tuple[int, bytes]], int | None]:
        """New output, and the node's exit code after the last of it. Waits for either."""
        assert self._process is not None
        with self._changed:
            self._changed.wait_for(lambda: self._unread or not self._open, LONGEST_READ)
            output, self._unread = self._unread, []
            self._changed.notify_all()
            return output, None if self._open or output else self._process.wait()

    def send(self, signal: int) -> None:
        self._write(bytes([signal]))

    def _write(self, data: bytes) -> None:
        assert self._process
        assert self._process.stdin
        try:
            self._process.stdin.write(data)
        except BrokenPipeError:
            pass  # the node has exited

    def _collect(self, number: int, fd: int) -> None:
        while data := os.read(fd, 1 << 16):
            with self._changed:
                self._changed.wait_for(lambda: sum(len(chunk) for _, chunk in self._unread) < MOST_UNREAD)
                self._unread.append((number, data))
                self._changed.notify_all()
        with self._changed:
            self._open -= 1
            self._changed.notify_all()


def _environment_without_rays() -> dict[str, str | None]:
    """The changes that undo what Ray has set in this process. What the user had set before that stays."""
    with open("/proc/self/environ", encoding="utf-8", errors="surrogateescape") as file:
        initial = dict(pair.partition("=")[::2] for pair in file.read().split("\0"))
    return {name: initial.get(name) for name in SET_BY_RAY}
