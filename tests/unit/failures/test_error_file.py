"""The file for the parent of flota: which record is copied into it."""

from __future__ import annotations

import json
import os

import pytest

from flota.failures.error_file import write_error_file
from flota.job.report import FAILED, FailedWorker, Report, Verdict

CULPRIT = FailedWorker(rank=3, code=7, ending="exit code 7", said=("last words",), at=1000.5)


def report(directory, *failed):
    verdict = Verdict(FAILED, 7, 0)
    return Report("default", verdict, {"trainer": 4}, 1, 1.0, str(directory), failed=failed, began=1000.0)


def written(directory, culprit=CULPRIT):
    assert write_error_file(str(directory / "parent.json"), report(directory, culprit)) == ""
    return json.loads((directory / "parent.json").read_text())


@pytest.mark.parametrize("record", [None, "", "[]", '{"message": ', "{}"])
def test_without_a_usable_record_the_failure_is_described(tmp_path, record):
    if record is not None:
        (tmp_path / "error.3.json").write_text(record)

    assert written(tmp_path) == {
        "message": {
            "message": "rank 3 exit code 7",
            "extraInfo": {"py_callstack": "last words", "timestamp": "1000"},
            "errorCode": 7,
        }
    }


def test_a_record_that_is_plain_text_is_copied_as_it_is(tmp_path):
    (tmp_path / "error.3.json").write_text('{"message": "boom", "timestamp": 5}')

    assert written(tmp_path) == {"message": "boom", "timestamp": 5}


def test_a_record_of_another_role_has_its_name(tmp_path):
    (tmp_path / "error.server.3.json").write_text('{"message": {"message": "boom"}}')

    assert written(tmp_path, CULPRIT._replace(role="server")) == {"message": {"message": "boom", "errorCode": 7}}


def test_a_record_of_an_earlier_job_is_not_copied(tmp_path):
    (tmp_path / "error.3.json").write_text('{"message": "boom"}')
    os.utime(tmp_path / "error.3.json", (999, 999))

    assert written(tmp_path)["message"]["message"] == "rank 3 exit code 7"
