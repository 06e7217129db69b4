from flota.control.status import RankStatus
from flota.dashboard.job_progress import progress_of
from flota.job.report import NO_STEP


def ranks(*facts):
    return [RankStatus(number, **one) for number, one in enumerate(facts)]


def test_progress_is_that_of_the_slowest_rank():
    progress = progress_of(
        ranks({"step": 10, "total": 100, "step_seconds": 1.0}, {"step": 8, "total": 100, "step_seconds": 2.0})
    )

    assert (progress["step"], progress["total"]) == (8, 100)
    assert (progress["fastest"], progress["seconds"], progress["slowest"]) == (1.0, 1.5, 2.0)
    assert progress["eta"] == 92 * 1.5


def test_the_time_left_follows_the_measured_pace():
    ranks_ = ranks({"step": 10, "total": 100, "step_seconds": 1.0})

    assert progress_of(ranks_, 0.5)["eta"] == 180.0


def test_ranks_without_steps_do_not_count():
    progress = progress_of(ranks({"step": NO_STEP}, {"step": 5, "step_seconds": 0.5}))

    assert (progress["step"], progress["eta"]) == (5, None)
    assert progress_of([])["step"] is None


def test_numbers_are_means():
    numbers = progress_of(ranks({"numbers": {"loss": 1.0, "lr": 0.1}}, {"numbers": {"loss": 2.0}}))["numbers"]

    assert numbers == {"loss": 1.5, "lr": 0.1}
