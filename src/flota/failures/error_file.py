"""Writes the first failure of a job to the file that the parent of this flota reads, in the format of torch's @record.

torchrun does so if TORCHELASTIC_ERROR_FILE is set for itself: launchers of launchers show what is in the file.
"""

from __future__ import annotations

import os
from typing import Any

from flota.job.plan import ERROR, own_file_of
from flota.job.report import FailedWorker, Report, exception_message, failure_in_brief
from flota.logs.directory import read_end, write_whole
from flota.logs.parse_events import parse_object

MOST_RECORDED = 1 << 20  # bytes


def write_error_file(path: str, report: Report) -> str:
    """Write the culprit of a job that failed. Returns why it could not be written, or nothing."""
    if not report.failed:
        return ""
    import json

    content = _recorded(report) or {"message": _message(report.failed[0])}
    if isinstance(content["message"], dict):
        content["message"]["errorCode"] = report.failed[0].code  # as torchrun does; -N for signal N
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        write_whole(path, json.dumps(content))
    except OSError as error:
        return f"cannot write the error file {path}: {error.strerror}"
    return ""


def _recorded(report: Report) -> dict[str, Any] | None:
    """What the culprit itself has recorded in this job, if its file is on this machine."""
    culprit = report.failed[0]
    path = own_file_of(report.log_dir, culprit.role, culprit.rank, ERROR)
    try:
        if os.stat(path).st_mtime < report.began:
            return None  # of an earlier job
    except OSError:
        return None
    content = parse_object(read_end(path, MOST_RECORDED))
    return content if content and "message" in content else None


def _message(culprit: FailedWorker) -> dict[str, Any]:
    """The failure in words, for a culprit that recorded nothing: its last output takes the place of the traceback."""
    summary = [*exception_message(culprit), failure_in_brief(culprit)][0]
    details = {"py_callstack": "\n".join(culprit.said), "timestamp": str(int(culprit.at))}
    return {"message": summary, "extraInfo": details}
