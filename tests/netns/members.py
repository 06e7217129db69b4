"""A job whose nodes run its etcd, on hosts of a lab: what its members say, and which host does what."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flota.store.keys import end_of, keys_of
from tests.lab import Lab
from tests.launching import DEADLINE, state, wait_until
from tests.netns.jobs import PORT, Job

PATIENCE = 1.0  # seconds for one answer


class MembersJob(Job):
    """`count`: the first hosts of the lab, which are in --master."""

    port = PORT

    def __init__(self, lab: Lab, directory: Path, count: int = 3) -> None:
        self.listed = list(range(1, count + 1))
        super().__init__(lab, directory, ",".join(f"{lab.host(number).address}:{PORT}" for number in self.listed))

    def ask(self, number: int, path: str, body: object) -> dict[str, Any]:
        """Ask the member on a host, on that host. Raises OSError if it does not answer."""
        host = self.lab.host(number)
        client = http.client.HTTPConnection(host.address, self.port)
        try:
            client.sock = host.call(socket.create_connection, (host.address, self.port), PATIENCE)
            client.request("POST", path, json.dumps(body))
            response = client.getresponse()
            text = response.read()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            client.close()
        if response.status != http.HTTPStatus.OK:
            raise OSError(text.decode(errors="replace"))
        answer: dict[str, Any] = json.loads(text)
        return answer

    def ask_any(self, path: str, body: object) -> dict[str, Any]:
        give_up = time.monotonic() + DEADLINE
        while True:
            for number in self.listed:
                try:
                    return self.ask(number, path, body)
                except OSError:
                    continue
            assert time.monotonic() < give_up, f"no member answers{self}"
            time.sleep(0.05)

    def has_members(self, count: int) -> bool:
        """Whether so many members serve and vote, and there are no others."""
        try:
            answers = [self.ask(number, "/v3/cluster/member/list", {})["members"] for number in self.listed]
        except OSError:
            return False
        listed = {json.dumps(answer, sort_keys=True) for answer in answers}
        voters = [one for one in answers[0] if one.get("name") and not one.get("isLearner")]
        return len(listed) == 1 and len(voters) == len(answers[0]) == count

    def wait_for_members(self, count: int = 0) -> None:
        count = count or len(self.listed)
        try:
            wait_until(lambda: self.has_members(count), f"{count} members")
        except AssertionError as error:
            error.add_note(str(self))
            raise

    def leader(self) -> int:
        """The number of the host with etcd's leader."""
        give_up = time.monotonic() + DEADLINE
        while time.monotonic() < give_up:
            for number in self.listed:
                try:
                    status = self.ask(number, "/v3/maintenance/status", {})
                except OSError:
                    continue
                if status.get("leader") == status["header"]["member_id"]:
                    return number
            time.sleep(0.05)
        raise AssertionError(f"no leader{self}")

    def coordinator(self) -> int:
        """The number of the coordinator's host."""
        keys = keys_of(self.name)
        begin, end = (base64.b64encode(key).decode() for key in (keys.prefix.encode(), end_of(keys.prefix.encode())))
        found = self.ask_any("/v3/kv/range", {"key": begin, "range_end": end})
        values = {
            base64.b64decode(entry["key"]): base64.b64decode(entry.get("value", "")) for entry in found.get("kvs", [])
        }
        node = values.get(keys.coordinator)
        record = json.loads(values.get(keys.nodes + node, b"{}")) if node else {}
        return int(record.get("host", "host0").removeprefix("host"))

    def etcd_pid(self, number: int) -> int:
        """The etcd on a host; 0 if there is none."""
        for pid in self.lab.host(number).processes():
            try:
                if Path(f"/proc/{pid}/comm").read_text() == "etcd\n" and state(pid) != "Z":
                    return pid
            except OSError:
                continue
        return 0

    def data(self, number: int) -> list[str]:
        """What is left of etcd's data on a host."""
        names: list[str] = self.lab.host(number).call(os.listdir, "/dev/shm")
        return [name for name in names if "flota" in name]

    def assert_nothing_left(self, hosts: Iterable[int]) -> None:
        for number in hosts:
            wait_until(
                lambda number=number: not self.etcd_pid(number) and not self.data(number),
                f"host{number} without {self.etcd_pid(number)} and {self.data(number)}",
            )

    def rosters(self) -> dict[int, set[tuple[str, str]]]:
        """By round: size and master, as its workers have recorded them."""
        return {
            number: {(note["world_size"], note["master"]) for note in self.notes("worker", number).values()}
            for number in self.rounds()
        }

    def kill_node(self, number: int) -> None:
        """Kill the flota process of a host; its shepherd lives."""
        alive = [one for one in self.nodes.started if one.host.number == number and one.process.poll() is None]
        for node in alive:
            node.process.send_signal(signal.SIGKILL)


class ChosenMembersJob(MembersJob):
    """With --masters: the first nodes that join at host1 are the members."""

    port = PORT + 1  # of all that are alone on their host

    def __init__(self, lab: Lab, directory: Path, count: int = 3) -> None:
        super().__init__(lab, directory, count)
        self.master = f"{lab.host(1).address}:{PORT}"
        self.words = ["--master", self.master, "--job_id", self.name, "--masters", str(count)]
