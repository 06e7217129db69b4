from flota.dashboard.curves import Curves


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
