from flota.dashboard.timeline import MOST_FAILURES, MOST_ROUNDS, timeline_of


def line(second, event, **facts):
    clock = f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"
    return {"time": clock, "event": event, "node": "a", **facts}


def read(*events):
    return events


FIRST = (line(0, "job_started"), line(1, "round_started", round=0, attempt=0))


def test_rounds_have_their_failures():
    timeline = timeline_of(
        [
            read(
                *FIRST,
                line(9, "worker_exited", rank=1, code=1),
                line(9, "worker_exited", rank=0, code=-15, asked_to_stop=True),
                line(12, "round_started", round=1, attempt=1),
            )
        ]
    )

    first, second = timeline["rounds"]
    assert (first["failed"], [one["text"] for one in first["failures"]]) == (1, ["rank 1 exit code 1"])
    assert first["ended"] - first["began"] == 8
    assert (second["attempt"], second["ended"]) == (1, None)


def test_damaged_events_are_skipped():
    damaged = [
        {"event": "job_ended", "time": 1},
        {"event": "anything"},
        line(3, "worker_exited", rank="x", code=None),
        line(3, "round_started"),
    ]

    assert len(timeline_of([read(*FIRST, *damaged, line(3, "start_failed", rank=0, error="gone"))])["rounds"]) == 1


def test_a_round_lasts_from_its_first_node_to_its_last():
    one = read(*FIRST, line(20, "worker_exited", rank=0, code=1), line(21, "job_ended", verdict="failed"))
    other = read(
        line(0, "job_started"), line(2, "round_started", round=0, attempt=0), line(31, "job_ended", verdict="failed")
    )

    timeline = timeline_of([one, other])

    assert timeline["rounds"][0]["ended"] - timeline["rounds"][0]["began"] == 30
    assert len(timeline["marks"]) == 1


def test_what_is_kept_is_limited():
    many = [line(1, "worker_exited", rank=rank, code=1) for rank in range(100)]
    rounds = [line(2, "round_started", round=number, attempt=0) for number in range(1, MOST_ROUNDS + 50)]

    timeline = timeline_of([read(*FIRST, *many)])
    assert (timeline["rounds"][0]["failed"], len(timeline["rounds"][0]["failures"])) == (100, MOST_FAILURES)
    assert len(timeline_of([read(*FIRST, *rounds)])["rounds"]) == MOST_ROUNDS


def test_a_round_that_a_lost_node_did_not_end_has_ended_when_the_next_one_begins():
    lost = read(*FIRST)
    other = read(
        *FIRST,
        line(9, "worker_exited", rank=0, code=-15, asked_to_stop=True),
        line(20, "round_started", round=1, attempt=0),
    )

    for nodes in ([lost, other], [lost, read(*FIRST, line(20, "round_started", round=1, attempt=0))]):
        first, second = timeline_of(nodes)["rounds"]
        assert first["began"] < first["ended"] <= second["began"] and second["ended"] is None


def test_suspects_that_are_not_a_list_are_left_out():
    assert timeline_of([read(*FIRST, line(3, "hang_found", suspects=7))])["marks"][0]["text"] == "hang found"
