"""Runs in log directories: the latest ones, and the one that is running."""

from __future__ import annotations

import os

import pytest

from flota.logs.directory import open_directory
from flota.logs.find_runs import latest_run, matching_runs, run_directories, running_directory


def make_runs(directory, *names, latest=""):
    for name in names:
        (directory / name).mkdir(parents=True)
    if latest:
        (directory / "latest").symlink_to(latest)


def below(directory, paths):
    return [os.path.relpath(path, directory) for path in paths]


def test_the_latest_run_is_looked_at_and_no_other(tmp_path):
    make_runs(tmp_path, "1/host1", "1/host2", "2", latest="1")

    places = below(tmp_path, run_directories(str(tmp_path)))

    assert [place for place in places if not place.endswith("/log")] == [".", "1", "1/host1", "1/host2"]


def test_the_latest_runs_of_several_jobs(tmp_path):
    make_runs(tmp_path / "a", "1", "2", latest="2")
    make_runs(tmp_path / "b", "3", latest="3")

    assert below(tmp_path, run_directories(str(tmp_path))) == [".", "a", "a/2", "b", "b/3"]


@pytest.mark.parametrize("target", ["..", ".", "../elsewhere", "/", "1/deep", "gone", "file", "other"])
def test_a_link_that_is_not_to_a_directory_beside_it_is_not_followed(tmp_path, target):
    make_runs(tmp_path / "runs", "1/deep", latest=target)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs" / "file").touch()
    (tmp_path / "runs" / "other").symlink_to("../elsewhere")

    assert latest_run(str(tmp_path / "runs")) == ""


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("{job_id}/{time}", ["a/2"]),
        ("{job_id}/{time}/{host}", ["a/2/h"]),
        ("a/{time}", ["a/2"]),
        ("b/{time}", ["b/3"]),
        ("[x]{time}", ["[x]4"]),
        ("{pid}/nothing", []),
    ],
)
def test_a_template_leads_to_the_latest_runs_or_to_all(tmp_path, template, found):
    make_runs(tmp_path / "a", "1/h", "2/h", latest="2")
    make_runs(tmp_path, "b/3", "[x]4", "x5")
    (tmp_path / "b" / "latest").symlink_to("gone")

    assert below(tmp_path, matching_runs(str(tmp_path), template)) == found


def start(directory, at):
    """A job of this machine that runs in a directory, since this time."""
    lock = open_directory(str(directory), "default")
    (directory / f"events.{os.uname().nodename}.jsonl").touch()
    os.utime(directory / ".flota.lock", (at, at))
    return lock


@pytest.mark.parametrize(("below_base", "template"), [("", ""), ("a", ""), ("a/1", ""), ("", "{job_id}/{time}")])
def test_the_running_job_is_found_also_when_a_later_one_has_ended(tmp_path, below_base, template):
    make_runs(tmp_path / "a", "1", "2", latest="2")
    running, ended = start(tmp_path / "a" / "1", at=100), start(tmp_path / "a" / "2", at=200)
    os.close(ended)

    found = running_directory(os.path.normpath(tmp_path / below_base), template)

    assert found == str(tmp_path / "a" / "1")
    os.close(running)
    assert running_directory(str(tmp_path), template) == str(tmp_path)


def test_of_two_running_jobs_the_newer_one_is_found(tmp_path):
    make_runs(tmp_path, "1", "2", latest="1")
    locks = [start(tmp_path / "1", at=100), start(tmp_path / "2", at=200)]

    assert running_directory(str(tmp_path)) == str(tmp_path / "2")
    for lock in locks:
        os.close(lock)
