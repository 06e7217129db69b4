from __future__ import annotations

import threading
from urllib.parse import parse_qsl

from flota.control.client import Access, JobClient, NodeClient
from flota.control.status import JobStatus, NodePlace, NodeStatus, Status
from flota.logs.log_parts import MOST_READ


class Entry:
    """A node of this machine, which can be asked by one thread at a time."""

    def __init__(self, places: tuple[NodePlace, ...]) -> None:
        self.places = places
        self.asked_by: list[threading.Thread] = []

    def status(self) -> Status:
        return Status(JobStatus(1, "default", "running", nodes=self.places), NodeStatus("gpu00", 7))

    def access(self) -> Access:
        self.asked_by.append(threading.current_thread())
        return Access("token")


def test_the_token_is_asked_for_once_before_all_nodes_are_asked_at_the_same_time():
    entry = Entry(tuple(NodePlace(seat, f"gpu0{seat}", "", "http://127.0.0.1:1") for seat in range(4)))

    answer = JobClient(entry).status()

    assert entry.asked_by == [threading.main_thread()]
    assert [host for host, _ in answer.missing] == ["gpu01", "gpu02", "gpu03"]


def test_a_node_that_does_not_listen_is_named():
    entry = Entry((NodePlace(0, "gpu00"), NodePlace(1, "gpu01")))

    ((host, why),) = JobClient(entry).status().missing

    assert (host, entry.asked_by) == ("gpu01", [])
    assert why.startswith("it takes no requests from other machines; run the command there, or set FLOTA_TOKEN")


class FileClient(NodeClient):
    """Answers with parts of a file, which may be replaced by a shorter one."""

    def __init__(self, *files: bytes) -> None:
        super().__init__("10.0.0.1:1")
        self.files, self.asked = list(files), []

    def _request(self, method, path):
        query = dict(parse_qsl(path.partition("?")[2]))
        self.asked.append(int(query["offset"]))
        file = self.files.pop(0) if len(self.files) > 1 else self.files[0]
        begins = (
            max(0, len(file) + int(query["offset"]))
            if query["offset"][0] == "-"
            else min(int(query["offset"]), len(file))
        )
        return file[begins : begins + int(query["limit"])], str(begins)


def test_a_file_is_read_in_as_many_parts_as_it_has():
    file = bytes(range(256)) * (5 * MOST_READ // 512)
    client = FileClient(file)

    assert client.log_times() == file
    assert client.asked == [0, MOST_READ, 2 * MOST_READ]
    assert client.events_from(-MOST_READ - 1, 2 * MOST_READ) == (len(file) - MOST_READ - 1, file[-MOST_READ - 1 :])
    assert client.log_from("trainer", 0, 0, 7, 3) == (7, file[7:10])


def test_a_file_that_is_replaced_meanwhile_ends_there():
    old = b"o" * (2 * MOST_READ)

    assert FileClient(old, b"new").events_from(0, 1 << 30) == (0, old[:MOST_READ])
