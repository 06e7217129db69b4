"""A log directory for each run: new every time, and linked as `latest`."""

from __future__ import annotations

import os

import pytest

from flota.errors import UnwritableLogDir
from flota.job.nodes import NodesSpec
from flota.job.spec import Command, JobSpec, LogSpec
from flota.logs.run_directory import choose_time, link_latest, open_run, resolve


def spec_in(directory, template="{job_id}/{time}", **options):
    return JobSpec(Command("script", "t.py", (), "python"), 1, LogSpec(str(directory), per_run=template), **options)


def open_one(spec):
    """The directory, without the lock."""
    run, lock = open_run(spec)
    os.close(lock)
    return run


def test_runs_of_one_second_have_directories_of_their_own(tmp_path):
    runs = [open_one(spec_in(tmp_path)).log for _ in range(5)]

    assert len({run.directory for run in runs}) == 5
    assert all(os.path.dirname(run.directory) == f"{tmp_path}/default" for run in runs)
    assert all(run.per_run == "" and run.latest == f"{tmp_path}/default/latest" for run in runs)


def test_the_next_time_is_numbered(tmp_path):
    first = choose_time(spec_in(tmp_path, "{time}/log"))
    for taken in (first, f"{first}-2"):
        (tmp_path / taken / "log").mkdir(parents=True)

    after = choose_time(spec_in(tmp_path, "{time}/log"))

    assert after == f"{first}-3" or after > first  # the clock may have gone on


def test_without_a_time_runs_share_a_directory(tmp_path):
    first, second = (open_one(spec_in(tmp_path, "{job_id}/{host}.{pid}")) for _ in range(2))

    assert first.log.directory == second.log.directory
    assert first.log.directory == f"{tmp_path}/default/{os.uname().nodename}.{os.getpid()}"


def test_on_many_nodes_the_time_is_left_open(tmp_path):
    spec = spec_in(tmp_path, nodes=NodesSpec(2, 2))

    assert open_run(spec) == (spec, -1)
    assert os.listdir(tmp_path) == ["default"]
    assert resolve(spec, "20261117-063015").log.directory == f"{tmp_path}/default/20261117-063015"
    assert resolve(spec, "../../etc").log.directory == f"{tmp_path}/default/.._.._etc"


@pytest.mark.parametrize("nodes", [None, NodesSpec(2, 2)])
def test_a_directory_that_cannot_be_made_is_an_error_at_the_start(tmp_path, nodes):
    (tmp_path / "default").write_text("in the way")

    with pytest.raises(UnwritableLogDir):
        open_run(spec_in(tmp_path, "{job_id}/a/{time}", nodes=nodes))


def test_latest_leads_to_the_last_run(tmp_path):
    for _ in range(2):
        run = open_one(spec_in(tmp_path, "{time}/{host}"))
        assert link_latest(run.log) == ""

    assert os.readlink(tmp_path / "latest") == os.path.relpath(run.log.directory, tmp_path).partition("/")[0]
    assert len(os.listdir(tmp_path)) == 3  # nothing is left of making it


@pytest.mark.parametrize("make", ["mkdir", "touch"])
def test_a_file_or_directory_in_its_place_is_kept(tmp_path, make):
    getattr(tmp_path / "latest", make)()
    run = open_one(spec_in(tmp_path, "{time}"))

    assert link_latest(run.log) == f"`{tmp_path}/latest` is not a link, so it does not point to this run"
    assert not (tmp_path / "latest").is_symlink()


def test_a_link_that_leads_nowhere_is_replaced(tmp_path):
    (tmp_path / "latest").symlink_to("removed")
    run = open_one(spec_in(tmp_path, "{time}"))

    assert link_latest(run.log) == ""
    assert (tmp_path / "latest").resolve() == (tmp_path / run.log.directory).resolve()
