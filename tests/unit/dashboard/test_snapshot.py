from flota.control.client import JobAnswer
from flota.control.status import JobStatus, NodeStatus, RankStatus
from flota.dashboard.snapshot import cpu_of, take_snapshot


def answer(*nodes):
    return JobAnswer(JobStatus(1, "job", "running"), tuple(nodes))


def test_the_use_of_cpus_is_what_was_used_since_the_last_snapshot():
    def now(cpu):
        return answer(NodeStatus("a", 1, ranks=(RankStatus(0, pid=7, cpu=cpu),)))

    before = cpu_of(now(10.0))

    assert take_snapshot(now(13.0), before, 2.0)["ranks"]["cpu"] == [1.5]
    assert take_snapshot(now(13.0), {}, 2.0)["ranks"]["cpu"] == [None]


def test_a_rank_has_the_seat_of_its_node():
    nodes = [NodeStatus(host, 1, seat, ranks=(RankStatus(seat),)) for seat, host in enumerate("ab")]

    columns = take_snapshot(answer(*nodes), {}, 0.0)["ranks"]

    assert (columns["rank"], columns["seat"]) == ([0, 1], [0, 1])
    assert {len(column) for column in columns.values()} == {2}
