"""Which events belong to the last job, and to which of its nodes."""

from __future__ import annotations

import json
import os

import pytest

from flota.ledger.read_events import node_ledger
from flota.ledger.read_logs import find_ledger
from tests.unit.ledger.scripted import Node


def lines(node: Node, pid: int = 7) -> str:
    """As a node writes them: its clock began at 8 o'clock."""
    text = ""
    for event in node.events:
        at = event["monotonic"] - 1000.0
        clock = f"2027-01-15T08:{int(at // 60):02d}:{at % 60:09.6f}Z"
        text += json.dumps({"time": clock, "flota_pid": pid, **event}) + "\n"
    return text


def job(begin: float, *, ended: bool = True, rounds: tuple[int, ...] = (0,), rank: int = 0, nodes: int = 0) -> Node:
    """A job of 10 s per round."""
    node = Node(nodes=nodes)
    node.add(begin, "job_started", world_size=1, pid=1, began=1000.0 + begin)
    for place, number in enumerate(rounds):
        at = begin + 10.0 * place
        node.round(at, number, workers=0)
        node.start(at, rank)
        if ended or number != rounds[-1]:
            node.exit(at + 10.0, rank, int(number != rounds[-1]))
    if ended:
        node.end(begin + 10.0 * len(rounds))
    return node


def walls(*directories: object) -> list[float]:
    found = find_ledger([str(one) for one in directories])
    return sorted(row.wall / 1e6 for row in found[1].ranks) if found else []


def test_only_the_last_job_of_a_file_counts(tmp_path):
    (tmp_path / "events.a.jsonl").write_text(lines(job(0.0)) + lines(job(11.0, rounds=(0, 1)), 8))

    assert walls(tmp_path) == [20.0]


def test_a_job_that_was_killed_and_started_again_is_another_job(tmp_path):
    (tmp_path / "events.a.jsonl").write_text(lines(job(0.0, ended=False, nodes=2)) + lines(job(5.0, nodes=2), 8))

    assert walls(tmp_path) == [10.0]


def test_two_nodes_on_one_machine_write_to_one_file(tmp_path):
    one, other = (lines(job(0.5 * rank, rank=rank, nodes=2), 7 + rank).splitlines() for rank in (0, 1))
    mixed = [line for pair in zip(one, other, strict=True) for line in pair]
    (tmp_path / "events.a.jsonl").write_text("\n".join(mixed))

    assert walls(tmp_path) == [10.0, 10.0]


def test_a_node_that_joined_again_after_it_was_killed_has_both_its_times(tmp_path):
    killed, joined = job(0.0, ended=False, rounds=(0, 1), nodes=2), job(25.0, rounds=(2,), nodes=2)
    (tmp_path / "events.a.jsonl").write_text(lines(killed) + lines(joined, 8))
    (tmp_path / "events.b.jsonl").write_text(lines(job(0.0, rounds=(0, 1, 2), rank=1, nodes=2), 9))

    assert walls(tmp_path) == [10.0, 10.0, 30.0]


def test_nodes_of_several_directories_are_one_job(tmp_path):
    for name in ("gpu01", "gpu02"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"events.{name}.jsonl").write_text(lines(job(0.0, nodes=2)))

    assert walls(tmp_path) == walls(tmp_path / "gpu01", tmp_path / "gpu02") == [10.0, 10.0]


@pytest.mark.parametrize("text", ["", "nonsense\n", "{}\n", '{"event": []}\n', '{"event": "job_ended"}\n'])
def test_a_file_without_events_says_nothing(tmp_path, text):
    (tmp_path / "events.a.jsonl").write_text(text)

    assert find_ledger([str(tmp_path)]) is None
    assert find_ledger([str(tmp_path / "nowhere")]) is None


def test_a_node_reads_its_own_events_alone(tmp_path):
    path = tmp_path / "events.a.jsonl"
    own = job(20.0, rounds=(0, 1))
    own.events.pop()
    path.write_text(lines(job(0.0), os.getpid()) + lines(job(15.0), 1) + lines(own, os.getpid()))

    ledger = node_ledger(str(path), 1041.0, {"restarts": [{"round": 0, "reason": "as in the report"}]})

    assert (ledger.wall, ledger.state, ledger.restarts[0].reason) == (21_000_000, "ended", "as in the report")


def test_without_a_file_a_node_has_no_ledger(tmp_path):
    assert node_ledger(str(tmp_path / "events.a.jsonl"), 5.0, {}) is None
