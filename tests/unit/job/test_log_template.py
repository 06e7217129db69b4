"""--log_dir with placeholders: what is a mistake, and which directory a run gets."""

from __future__ import annotations

import pytest

from flota.job.log_template import fill, find_mistake, split, split_at_run


@pytest.mark.parametrize(
    ("path", "mistake"),
    [
        ("log", ""),
        ("runs/{job_id}/{time}-{host}.{pid}", ""),
        ("runs/{rank}", "{rank}"),
        ("runs/{time}/{Time}", "{Time}"),
        ("runs/{}", "{}"),
        ("runs/{time", "{"),
        ("runs/{{time}}", "{"),
        ("runs/time}", "}"),
        ("runs/{time}}", "}"),
        ("}{", "}"),
    ],
)
def test_unknown_placeholders_and_single_braces_are_mistakes(path, mistake):
    assert find_mistake(path) == mistake


@pytest.mark.parametrize(
    ("path", "base", "template"),
    [
        ("runs/{job_id}/{time}", "runs", "{job_id}/{time}"),
        ("{time}", ".", "{time}"),
        ("/{time}", "/", "{time}"),
        ("/a/b/run-{time}/log", "/a/b", "run-{time}/log"),
    ],
)
def test_the_directory_above_the_placeholders_is_known_at_once(path, base, template):
    assert split(path) == (base, template)


@pytest.mark.parametrize(
    ("template", "job_id", "directory"),
    [
        ("{job_id}/{time}", "a", "a/T"),
        ("{job_id}/{time}", "../../etc", ".._.._etc/T"),
        ("{job_id}/{time}", "..", ".._/T"),
        (".{job_id}", ".", ".._"),
        ("{job_id}", "", "_"),
        ("{job_id}", "{time}", "_time_"),
        ("{job_id}", "a\0b\nc\udcff", "a_b_c_"),
        ("{job_id}", "latest", "latest_"),
        ("{job_id}", "Größe 1", "Größe 1"),
    ],
)
def test_a_value_is_one_component_of_the_path(template, job_id, directory):
    assert fill(template, {"job_id": job_id, "time": "T"}) == directory


def test_a_placeholder_without_a_value_stays():
    assert fill("{job_id}/{time}", {"job_id": "a"}) == "a/{time}"


@pytest.mark.parametrize(
    ("template", "parts"),
    [
        ("{job_id}/{time}", ("{job_id}", "{time}", "")),
        ("{host}/run-{time}/log", ("{host}", "run-{time}", "log")),
        ("{job_id}/{pid}/{time}", ("{job_id}", "{pid}", "{time}")),
        ("a-{job_id}/{host}", ("", "a-{job_id}", "{host}")),
        ("{host}", None),
    ],
)
def test_the_component_that_changes_with_each_run(template, parts):
    assert split_at_run(template) == parts
