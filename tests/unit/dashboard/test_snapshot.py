from flota.control.client import JobAnswer
from flota.control.status import JobStatus, NodeStatus, RankStatus
from flota.dashboard.snapshot import cpu_of, progress_of, take_snapshot
from flota.job.report import NO_STEP


def ranks(*facts):
    return [RankStatus(number, **one) for number, one in enumerate(facts)]


def answer(*nodes):
    return JobAnswer(JobStatus(1, "job", "running"), tuple(nodes))


def test_progress_is_that_of_the_slowest_rank():
    progress = progress_of(
        ranks({"step": 10, "total": 100, "step_seconds": 1.0}, {"step": 8, "total": 100, "step_seconds": 2.0})
    )

    assert (progress["step"], progress["total"]) == (8, 100)
    assert (progress["fastest"], progress["seconds"], progress["slowest"]) == (1.0, 1.5, 2.0)
    assert progress["eta"] == 92 * 2.0


def test_ranks_without_steps_do_not_count():
    progress = progress_of(ranks({"step": NO_STEP}, {"step": 5, "step_seconds": 0.5}))

    assert (progress["step"], progress["eta"]) == (5, None)
    assert progress_of([])["step"] is None


def test_numbers_are_means():
    numbers = progress_of(ranks({"numbers": {"loss": 1.0, "lr": 0.1}}, {"numbers": {"loss": 2.0}}))["numbers"]

    assert numbers == {"loss": 1.5, "lr": 0.1}


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
