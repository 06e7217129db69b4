from __future__ import annotations

import threading

from flota.control.client import Access, JobClient
from flota.control.status import JobStatus, NodePlace, NodeStatus, Status


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
    assert "set FLOTA_TOKEN on all nodes" in why
