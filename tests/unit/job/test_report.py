"""The report: on the page, as JSON and back."""

from __future__ import annotations

from flota.errors import HANG
from flota.failures.report_text import failure_report
from flota.job.causes import HUNG
from flota.job.report import (
    FAILED,
    BoundWorker,
    FailedWorker,
    Report,
    Verdict,
    report_as_dict,
    report_from_dict,
    with_failures,
)

SAID = tuple(f"line {number}" for number in range(15))


def failed(rank, role="trainer", **facts):
    facts = {"said": SAID, "log": f"/log/workerlog.{rank}", "at": 1000.5 + rank, **facts}
    return FailedWorker(rank, 0, "gpu01", 4711, 1, "exception", "exit code 1 (ValueError)", 2.5, role=role, **facts)


FIRST = failed(4, step=118, attempt=1, exception="ValueError", evidence="cgroup limit 64 MiB", hint="do better")
BLANK = Report(
    "job", Verdict(FAILED, 1, 1, reason="no progress"), {"trainer": 8, "server": 2}, 2, 9.0, "/log", several=True
)
FULL = with_failures(
    BLANK,
    (FIRST, *(failed(rank) for rank in (1, 2)), failed(0, is_secondary=True), failed(5, is_secondary=True)),
    (("server", 0),),
)


def test_the_failure_report_has_everything_in_25_lines():
    page = failure_report(FULL)

    assert len(page) <= 25
    assert page[0].startswith("ABORT!!! Out of all 8 trainers, the trainer process with rank=[1,2,4] was aborted.")
    assert page[1:3] == [
        "rank 4 on gpu01 failed first: exit code 1 (ValueError) after 2.5 s",
        "  pid 4711, attempt 1, last step 118",
    ]
    assert page[3:18] == [f"  {line}" for line in SAID]
    assert page[18:] == [
        "memory: cgroup limit 64 MiB",
        "log on gpu01: /log/workerlog.4",
        "hint: do better",
        "also failed on their own: rank 1 on gpu01 with exit code 1 (ValueError), rank 2 on gpu01 with exit code 1 (ValueError)",
        "failed as a consequence: ranks 0, 5",
        "not restarted: no progress",
        "stopped by flota: ranks 3, 6-7; server 1",
    ]


def test_a_rank_that_left_too_early_is_shown_with_the_consequences():
    left = FIRST._replace(cause="left-early", code=0, said=SAID[:8])
    secondary = (failed(0, is_secondary=True), failed(5, is_secondary=True))
    page = failure_report(with_failures(BLANK, (left, *secondary)))

    at = page.index("then rank 0 on gpu01 failed with exit code 1 (ValueError):")
    assert page[at + 1 : at + 8] == ["  line 0", "    …", "  line 11", "  line 12", "  line 13", "  line 14", "failed as a consequence: ranks 0, 5"]  # fmt: skip
    assert len(page) <= 25


def test_what_came_of_it_is_cut_to_the_lines_that_are_left():
    left = FIRST._replace(cause="left-early", code=0, evidence="")
    page = failure_report(with_failures(BLANK, (left, failed(0, is_secondary=True), failed(5, is_secondary=True))))

    assert len(page) == 25
    assert page[20:23] == [
        "then rank 0 on gpu01 failed with exit code 1 (ValueError):",
        "  line 14",
        "failed as a consequence: ranks 0, 5",
    ]


def test_ranks_that_succeeded_before_a_lost_connection_are_named():
    lost = FIRST._replace(cause="lost-connection", exception="BrokenPipeError")
    report = with_failures(BLANK, (lost,), (("trainer", 0), ("trainer", 1), ("server", 0)))

    assert "finished successfully before that: ranks 0-1; server 0" in failure_report(report)
    assert failure_report(report_from_dict(report_as_dict(report))) == failure_report(report)


def test_other_suspects_of_a_hang_are_reported_as_hung():
    suspects = tuple(failed(rank)._replace(code=HANG, cause=HUNG, ending="hang", said=()) for rank in (2, 1, 3))
    page = failure_report(with_failures(BLANK, (*suspects, failed(5))))

    assert "also hung: ranks 1, 3" in page
    assert "also failed on their own: rank 5 on gpu01 with exit code 1 (ValueError)" in page


def test_verbose_has_all_of_all():
    page = failure_report(FULL, verbose=True)

    assert page.count("  line 10") == 5
    assert "rank 5 on gpu01 failed: exit code 1 (ValueError) after 2.5 s (as a consequence)" in page


def test_of_many_failures_only_some_are_named():
    page = failure_report(with_failures(BLANK, tuple(failed(rank) for rank in range(8))))

    assert page[-3].endswith("rank 4 on gpu01 with exit code 1 (ValueError) and 3 more")


def test_bindings_are_in_json_and_back():
    bound = BoundWorker(rank=1, node="gpu01", cpus="0-3,8", memory_node=0), BoundWorker("server", 0, "gpu01", "9")
    told = report_as_dict(BLANK._replace(bindings=bound))

    assert [one["memory_node"] for one in told["bindings"]] == [0, None]
    assert report_from_dict(told).bindings == bound
    assert "bindings" not in report_as_dict(BLANK)


def test_json_and_back():
    told = report_as_dict(FULL)

    assert report_as_dict(report_from_dict(told)) == told
    assert failure_report(report_from_dict(told)) == failure_report(FULL)


def test_the_page_is_the_same_after_json_also_where_a_time_is_on_the_edge():
    report = with_failures(BLANK, (FIRST._replace(ran=0.15004),))

    assert failure_report(report_from_dict(report_as_dict(report))) == failure_report(report)


def test_a_lost_shepherd_and_a_signal_come_back_as_they_were():
    shepherd = FailedWorker(-1, -1, "gpu01", 0, -9, "shepherd-lost", "SIGKILL", 0.0, "", ())
    report = with_failures(BLANK._replace(sizes={"trainer": 1}), (shepherd,))

    assert report_from_dict(report_as_dict(report)).failed == (shepherd,)


def test_a_report_of_an_older_flota_can_be_shown():
    old = {
        "job_id": "job",
        "verdict": "failed",
        "exit_code": 3,
        "world_size": 1,
        "failures": [{"rank": 0, "exit_code": 3}],
    }

    assert failure_report(report_from_dict(old))[1] == "rank 0 failed first: exit code 3 after 0.0 s"
