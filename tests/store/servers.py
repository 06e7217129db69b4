"""Stores for tests: flota's embedded master in a thread, and a real etcd. And clients: a plain one, and flota's own."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from flota.host.loop import Loop
from flota.host.ports import hold_free, port_of, release
from flota.job.nodes import Place
from flota.store.client import Client as StoreClient
from flota.store.server import Master
from tests.etcd import packaged_etcd


class Embedded:
    """The master with its own loop, run by a thread."""

    name = "flota"

    def __init__(self, loop: Loop | None = None, **options) -> None:
        self.loop = loop or Loop()
        self.master = Master("127.0.0.1", 0, self.loop, **options)
        self.port = self.master.port
        self._stop = False
        self._running = threading.Event()
        self._running.set()
        self._paused = threading.Event()
        self._thread = threading.Thread(target=self._drive)
        self._thread.start()

    def _drive(self) -> None:
        while not self._stop:
            if not self._running.is_set():
                self._paused.set()
                self._running.wait()
            deadline = self.master.deadline
            wait = 0.02 if deadline is None else min(0.02, max(0.0, deadline - time.monotonic()))
            self.loop.turn(wait)
            if deadline is not None and time.monotonic() >= deadline:
                self.master.on_time(time.monotonic())

    def pause(self) -> None:
        """Act like a suspended process: the kernel accepts connections, but nothing is answered."""
        self._paused.clear()
        self._running.clear()
        assert self._paused.wait(30)

    def resume(self) -> None:
        self._running.set()

    def close(self) -> None:
        self._stop = True
        self.resume()
        self._thread.join()
        self.master.close()


class Etcd:
    """A real etcd: one member, or one of several."""

    name = "etcd"

    def __init__(self, program: str | None = None) -> None:
        (port, peer) = free_ports(2)
        self.start(port, peer, f"m{peer}=http://127.0.0.1:{peer}", program)
        self.wait()

    def start(self, port: int, peer: int, cluster: str, program: str | None = None, *more: str) -> None:
        self.directory = tempfile.mkdtemp(prefix="flota-etcd-")
        self.port = port
        client, own = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
        flags = ["--name", f"m{peer}", "--data-dir", self.directory, "--initial-cluster", cluster]
        flags += ["--listen-client-urls", client, "--advertise-client-urls", client]
        flags += ["--listen-peer-urls", own, "--initial-advertise-peer-urls", own]
        self.process = subprocess.Popen(
            [program or packaged_etcd(), *flags, *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def wait(self) -> None:
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            try:
                with Client(self.port) as client:
                    if client.ask("/v3/kv/range", {"key": "YQ=="})[0] == 200:
                        return
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError("etcd does not start")

    def ask(self, path: str, body: object, headers: dict[str, str] | None = None) -> dict:
        with Client(self.port) as client:
            status, answer = client.ask(path, body, headers)
            assert status == 200, answer
            return answer

    def pause(self) -> None:
        """Wait until it has stopped: on a busy machine its threads keep running for some milliseconds."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class Cluster:
    """Three members of one etcd."""

    def __init__(self) -> None:
        ports, peers = free_ports(3), free_ports(3)
        cluster = ",".join(f"m{peer}=http://127.0.0.1:{peer}" for peer in peers)
        self.members = [Etcd.__new__(Etcd) for _ in ports]
        for member, port, peer in zip(self.members, ports, peers, strict=True):
            member.start(port, peer, cluster)
        for member in self.members:
            member.wait()

    def leader(self) -> Etcd:
        statuses = [(member, member.ask("/v3/maintenance/status", {})) for member in self.members]
        (leader,) = [member for member, status in statuses if status["header"]["member_id"] == status["leader"]]
        return leader

    def close(self) -> None:
        for member in self.members:
            member.close()


def free_ports(count: int) -> list[int]:
    held = hold_free(count, "127.0.0.1")
    numbers = [int(port_of(holder)) for holder in held]
    release(held)
    return numbers


class Client:
    """A minimal client, with http.client and json."""

    def __init__(self, port: int) -> None:
        self.http = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.close()

    def ask(self, path: str, body: object, headers: dict[str, str] | None = None) -> tuple[int, dict]:
        self.http.request("POST", path, json.dumps(body), headers or {})
        response = self.http.getresponse()
        text = response.read()
        return response.status, json.loads(text.splitlines()[0] or b"{}")


class Driver:
    """flota's client with a loop, as in a node."""

    def __init__(self, *ports: int, **options) -> None:
        self.loop = Loop()
        self.client = StoreClient(tuple(Place("127.0.0.1", port) for port in ports), self.loop, **options)

    def ask(self, request):
        answers = []
        self.client.ask(request, answers.append, time.monotonic())
        self.until(lambda: answers)
        return answers[0]

    def until(self, condition, seconds: float = 30) -> None:
        give_up = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < give_up, "waited too long"
            self.loop.turn(0.02)
            self.client.on_time(time.monotonic())
