"""Stores to talk to: flota's embedded master in a thread, and real etcd as a process. And the plainest of clients."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import tempfile
import threading
import time

from flota.host.loop import Loop
from flota.host.ports import hold_free, number, release
from flota.store.server import Master
from tests.etcd import packaged_etcd


class Embedded:
    """The master with a loop of its own, driven by a thread."""

    name = "flota"

    def __init__(self, loop: Loop | None = None, **options) -> None:
        self.loop = loop or Loop()
        self.master = Master("127.0.0.1", 0, self.loop, **options)
        self.port = self.master.port
        self._stop = False
        self._thread = threading.Thread(target=self._drive)
        self._thread.start()

    def _drive(self) -> None:
        while not self._stop:
            deadline = self.master.deadline
            wait = 0.02 if deadline is None else min(0.02, max(0.0, deadline - time.monotonic()))
            self.loop.turn(wait)
            if deadline is not None and time.monotonic() >= deadline:
                self.master.on_time(time.monotonic())

    def close(self) -> None:
        self._stop = True
        self._thread.join()
        self.master.close()


class Etcd:
    """A real etcd of one member."""

    name = "etcd"

    def __init__(self, program: str | None = None) -> None:
        self.directory = tempfile.mkdtemp(prefix="flota-etcd-")
        held = hold_free(2, "127.0.0.1")
        self.port, peer = (int(number(holder)) for holder in held)
        release(held)
        client, own = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{peer}"
        flags = ["--data-dir", self.directory, "--listen-client-urls", client, "--advertise-client-urls", client]
        flags += [
            "--listen-peer-urls",
            own,
            "--initial-advertise-peer-urls",
            own,
            "--initial-cluster",
            f"default={own}",
        ]
        self.process = subprocess.Popen(
            [program or packaged_etcd(), *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait()

    def _wait(self) -> None:
        give_up = time.monotonic() + 20
        while time.monotonic() < give_up:
            try:
                with Client(self.port) as client:
                    if client.ask("/v3/kv/range", {"key": "YQ=="})[0] == 200:
                        return
            except OSError:
                time.sleep(0.02)
        raise AssertionError("etcd does not start")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory)


class Client:
    """http.client and json: what a stranger would write in ten lines."""

    def __init__(self, port: int) -> None:
        self.http = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.close()

    def ask(self, path: str, body: object, headers: dict[str, str] | None = None) -> tuple[int, dict]:
        self.http.request("POST", path, json.dumps(body), headers or {})
        response = self.http.getresponse()
        text = response.read()
        return response.status, json.loads(text.splitlines()[0] or b"{}")
