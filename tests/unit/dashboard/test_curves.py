from flota.dashboard.curves import Curves, curves_of
from tests.unit.dashboard.test_node_events import FIRST, event


def test_the_number_of_points_is_limited_however_long_a_job_runs():
    curves = Curves(most=100)
    for second in range(10_000):
        curves.add(float(second), {"loss": second / 10})

    data = curves.as_dict()
    assert 40 <= len(data["at"]) <= 100
    assert data["at"] == sorted(data["at"])
    assert data["at"][0] < 300 and data["at"][-1] > 9_700


def test_a_peak_of_the_slowest_rank_stays_visible():
    curves = Curves(most=10)
    for second in range(40):
        curves.add(float(second), {"slowest": 9.0 if second == 3 else 1.0, "seconds": 1.0})

    assert max(curves.as_dict()["values"]["slowest"]) == 9.0


def test_a_number_that_begins_later_has_gaps_before():
    curves = Curves()
    curves.add(1.0, {"step": 1})
    curves.add(2.0, {"step": 2, "loss": 0.5})

    assert curves.as_dict() == {"at": [1.0, 2.0], "values": {"step": [1, 2], "loss": [None, 0.5]}}


def test_unknown_and_infinite_values_are_left_out():
    curves = Curves()
    curves.add(1.0, {"loss": float("nan"), "seconds": None, "step": float("inf")})

    assert curves.as_dict() == {"at": [], "values": {}}


def record(rank, step, seconds, **numbers):
    return {"rank": rank, "last_step": step, "seconds": seconds, "numbers": numbers}


def test_the_events_of_all_nodes_become_one_curve_from_the_first_step_to_the_last():
    one = [
        *FIRST,
        event(10, "progress", ranks=[record(0, 10, 1.0, loss=4.0)]),
        event(20, "progress", ranks=[record(0, 20, 1.0, loss=3.0)]),
    ]
    other = [
        *FIRST,
        event(10, "progress", ranks=[record(1, 8, 3.0, loss=2.0)]),
        event(20, "progress", ranks=[record(1, 18, 3.0, loss=1.0)]),
    ]

    data = curves_of([one, other]).as_dict()

    assert data["at"][1] - data["at"][0] == 10
    assert data["values"] == {
        "step": [8, 18],
        "seconds": [2.0, 2.0],
        "fastest": [1.0, 1.0],
        "slowest": [3.0, 3.0],
        "number:loss": [3.0, 2.0],
    }


def test_a_job_that_ended_before_the_first_record_has_its_first_and_its_last_point():
    times = {"first_step": 0, "first_at": 102.6, "last_step": 9, "seconds": 0.1, "numbers": {"loss": 0.5}}

    data = curves_of([[*FIRST, event(3, "worker_exited", rank=0, code=0, times=times)]]).as_dict()

    assert round(data["at"][1] - data["at"][0], 3) == 0.4
    assert (data["values"]["seconds"], data["values"]["number:loss"]) == ([0.1, 0.1], [None, 0.5])


def test_steps_go_back_when_a_round_begins_again():
    events = [
        *FIRST,
        event(10, "progress", ranks=[record(0, 50, 1.0), record(1, 50, 1.0)]),
        event(12, "round_started", round=1),
    ]

    data = curves_of([[*events, event(20, "progress", ranks=[record(0, 40, 1.0)])]]).as_dict()

    assert data["values"]["step"] == [50, 40]


def test_a_job_without_steps_has_no_curves():
    assert curves_of([[*FIRST, event(3, "worker_exited", rank=0, code=0)], []]).as_dict() == {"at": [], "values": {}}
