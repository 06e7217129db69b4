"""A real etcd on hosts of a lab: one member, or a cluster that survives the loss of one."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.etcd import packaged_etcd
from tests.lab.hosts import Host
from tests.launching import DEADLINE, state, wait_until

CLIENTS, PEERS = 2379, 2380
PATIENCE = 2.0  # seconds for one answer; an etcd that is stopped or has no majority does not answer


class Member:
    """One etcd process, and what it needs to be started again."""

    def __init__(self, host: Host, directory: Path, program: str, cluster: str, more: Sequence[str]) -> None:
        self.host = host
        self.address = f"{host.address}:{CLIENTS}"
        self.address6 = f"[{host.address6}]:{CLIENTS}"
        self._log = directory / f"etcd-{host.name}.log"
        clients = [f"http://{address}" for address in (self.address, self.address6, f"127.0.0.1:{CLIENTS}")]
        flags = {
            "name": host.name,
            "data-dir": directory / f"etcd-{host.name}",
            "listen-client-urls": ",".join(clients),
            "advertise-client-urls": clients[0],
            "listen-peer-urls": _peer_url(host),
            "initial-advertise-peer-urls": _peer_url(host),
            "initial-cluster": cluster,
        }
        self._argv = [program, *(word for flag, value in flags.items() for word in (f"--{flag}", value)), *more]
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = self.host.popen(self._argv, stdout=log, stderr=subprocess.STDOUT)

    def ask(self, path: str, body: object, patience: float = PATIENCE) -> dict[str, Any]:
        """Ask this member on its own host, which network faults do not affect. Raises OSError if it does not answer."""
        line = self.host.call(socket.create_connection, ("127.0.0.1", CLIENTS), patience)
        client = http.client.HTTPConnection("127.0.0.1", CLIENTS)
        client.sock = line
        try:
            client.request("POST", path, json.dumps(body))
            response = client.getresponse()
            text = response.read()
            if response.status != http.HTTPStatus.OK:
                raise OSError(f"etcd on {self.host.name}: {text.decode(errors='replace')}")
            answer: dict[str, Any] = json.loads(text)
            return answer
        except http.client.HTTPException as error:
            raise OSError(f"etcd on {self.host.name}: {error!r}") from error
        finally:
            client.close()

    def is_ready(self) -> bool:
        """Whether it can read, which needs a majority."""
        assert self.process.poll() is None, f"etcd on {self.host.name} exited: {self._log.read_text()[-2000:]}"
        try:
            return bool(self.ask("/v3/kv/range", {"key": "YQ=="}))
        except OSError:
            return False


class Etcd:
    """One member on each of these hosts, ready for requests. It ends with the lab. `more`: more flags of etcd."""

    def __init__(
        self, hosts: Sequence[Host], directory: Path, program: str | None = None, more: Sequence[str] = ()
    ) -> None:
        cluster = ",".join(f"{host.name}={_peer_url(host)}" for host in hosts)
        path = program or packaged_etcd()
        self.members = {host.number: Member(host, directory, path, cluster, more) for host in hosts}
        self._wait(self.members.values())

    @property
    def addresses(self) -> list[str]:
        """The addresses of the members for clients."""
        return [member.address for member in self.members.values()]

    @property
    def addresses6(self) -> list[str]:
        return [member.address6 for member in self.members.values()]

    def leader(self) -> int:
        """The number of the leader's host; waits for an election to finish."""
        give_up = time.monotonic() + DEADLINE
        while time.monotonic() < give_up:
            terms = {int(status["raftTerm"]): number for number, status in self._statuses() if _leads(status)}
            if terms:
                return terms[max(terms)]  # a former leader that was cut off may not know yet that it lost the election
            time.sleep(0.02)
        raise AssertionError(f"no leader in {DEADLINE} s")

    def _statuses(self) -> Iterable[tuple[int, dict[str, Any]]]:
        for number, member in self.members.items():
            try:
                yield number, member.ask("/v3/maintenance/status", {})
            except OSError:
                continue

    def pause(self, seconds: float | None = None, *, members: Iterable[int] | None = None) -> None:
        """Suspend all members, or the named ones, until `resume` or for some seconds."""
        paused = list(self.members if members is None else members)
        pids = [self.members[number].process.pid for number in paused]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: all(state(pid) == "T" for pid in pids), "etcd to stop")
        if seconds is not None:
            timer = threading.Timer(seconds, self.resume, kwargs={"members": paused})
            timer.daemon = True  # does not delay the end of the test process
            timer.start()

    def resume(self, *, members: Iterable[int] | None = None) -> None:
        for number in self.members if members is None else members:
            self.members[number].process.send_signal(signal.SIGCONT)

    def kill(self, number: int) -> None:
        self.members[number].process.kill()
        self.members[number].process.wait()

    def restart(self, number: int) -> None:
        """Start a killed member again, with its data."""
        self.members[number].start()
        self._wait([self.members[number]])

    def _wait(self, members: Iterable[Member]) -> None:
        for member in members:
            wait_until(member.is_ready, f"etcd on {member.host.name}")


def _peer_url(host: Host) -> str:
    return f"http://{host.address}:{PEERS}"


def _leads(status: dict[str, Any]) -> bool:
    return "leader" in status and status["leader"] == status["header"]["member_id"]
