import json

from flota.dashboard.node_events import NodeEvents, nodes_of, replay


def event(second, name, **facts):
    clock = f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"
    return {"time": clock, "monotonic": 100.0 + second, "event": name, "node": "a", "flota_pid": 7, **facts}


FIRST = event(0, "job_started"), event(1, "round_started", round=0, attempt=0)


def file_of(*events, **options):
    file = NodeEvents(**options)
    file.feed("".join(f"{json.dumps(one)}\n" for one in events).encode())
    return file


def test_lines_arrive_in_parts_and_damaged_ones_are_skipped():
    data = b"".join(json.dumps(one).encode() + b'\n{\n[]\n{"event": 1}\n' for one in FIRST)
    file = NodeEvents()

    for at in range(0, len(data), 7):
        file.feed(data[at : at + 7])

    assert file.events == list(FIRST)


def test_only_the_last_job_of_a_file_counts():
    again = [{**one, "monotonic": one["monotonic"] + 50} for one in FIRST]

    assert nodes_of([file_of(*FIRST, event(9, "job_ended"), *again)]) == [again]


def test_a_file_that_two_nodes_write_is_read_once_for_each():
    other = [{**one, "flota_pid": 8} for one in FIRST]
    files = [file_of(*FIRST, *other), file_of(*FIRST, *other)]

    assert sorted(part[0]["flota_pid"] for part in nodes_of(files)) == [7, 8]


def test_records_of_a_long_job_are_thinned_out_over_its_whole_time():
    records = [event(2 + at, "progress", ranks=[{"rank": rank} for rank in range(10)]) for at in range(100)]

    file = file_of(*FIRST, *records, nodes=1000)

    kept = [one["monotonic"] for one in file.events if one["event"] == "progress"]
    assert 20 <= len(kept) <= 50 and kept[0] < 110 and kept[-1] > 190
    assert file.events[:2] == list(FIRST)


def test_the_last_status_of_a_rank_has_what_its_events_say():
    record = {"last_step": 4, "total": 9, "seconds": 0.5, "numbers": {"loss": 2.0, "bad": "x"}}
    events = [
        *FIRST,
        event(2, "worker_started", rank=3, pid=70, devices=["1"]),
        event(9, "progress", ranks=[{"rank": 3, **record}, "x", {"rank": -1}]),
        event(12, "worker_exited", rank=3, code=1, times={"last_step": 6}),
    ]

    *_, (_, number, rank) = replay(events)

    assert (number, rank.pid, rank.devices, rank.state, rank.exit_code) == (0, 70, ("1",), "failed", 1)
    assert (rank.step, rank.total, rank.step_seconds, rank.numbers) == (6, 9, 0.5, {"loss": 2.0})


def test_the_first_step_has_its_own_time():
    times = {"first_step": 0, "first_at": 103.0, "last_step": 9, "seconds": 0.5, "numbers": {"loss": 1.0}}

    found = [
        (at, rank.step, rank.numbers)
        for at, _, rank in replay([*FIRST, event(8, "worker_exited", rank=0, code=0, times=times)])
    ]

    assert [(at - found[-1][0], step, numbers) for at, step, numbers in found] == [
        (-5.0, 0, {}),
        (0.0, 9, {"loss": 1.0}),
    ]


def test_a_restarted_rank_begins_again():
    events = [*FIRST, event(3, "progress", ranks=[{"rank": 0, "last_step": 5}]), event(5, "round_started", round=1)]

    *_, (_, number, rank) = replay([*events, event(6, "worker_started", rank=0, pid=1)])

    assert (number, rank.step) == (1, -1)
