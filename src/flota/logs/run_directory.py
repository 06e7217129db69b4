"""A log directory for each run, from a `--log_dir` with placeholders: made, and linked as `latest`."""

from __future__ import annotations

import os
import time

from flota.errors import UnwritableLogDir
from flota.job.log_template import LATEST, TIME, as_file_name, fill, split_at_run
from flota.job.spec import JobSpec, LogSpec
from flota.logs.directory import open_directory, remove

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def times() -> Iterator[str]:
    """What `{time}` may stand for: the local time, then the same with a number."""
    now = time.strftime("%Y%m%d-%H%M%S", time.localtime(time.time()))
    yield now
    number = 2
    while True:
        yield f"{now}-{number}"
        number += 1


def resolve(spec: JobSpec, log_time: str = "") -> JobSpec:
    """The job in the directory of its run. Without a time, `{time}` stays."""
    base, template = spec.log.directory, spec.log.per_run
    values = {"job_id": spec.job_id, "host": os.uname().nodename, "pid": str(os.getpid())}
    values |= {"time": log_time} if log_time else {}
    at_run = split_at_run(template)
    latest = f"{_join(base, fill(at_run[0], values))}/{LATEST}" if at_run else ""
    return spec._replace(
        log=spec.log._replace(directory=_join(base, fill(template, values)), per_run="", latest=latest)
    )


def _join(base: str, below: str) -> str:
    return os.path.normpath(os.path.join(base, below))


def choose_time(spec: JobSpec) -> str:
    """A `{time}` whose directory does not exist on this machine."""
    return next(one for one in times() if not os.path.lexists(resolve(spec, one).log.directory))


def propose_time(spec: JobSpec, *, serves: bool) -> str:
    """For `{time}` in --log_dir, if this node is the first coordinator. The one that serves surely is."""
    if not spec.log.per_run:
        return ""
    return claim_time(spec) if serves else choose_time(spec)


def claim_time(spec: JobSpec, option: str = "--log_dir") -> str:
    """The same, with its directory made: no other run gets it."""
    return next(one for one in times() if _make(resolve(spec, one).log.directory, option))


def open_run(spec: JobSpec, *, option: str = "--log_dir") -> tuple[JobSpec, int]:
    """The job in the directory of its run, and the lock of that directory: see open_directory.

    The nodes of a job agree on `{time}` when its first round begins. Until then the placeholders stay, there is no lock
    (-1), and only the directory above is made, to report early that it cannot be.
    """
    has_time = TIME in spec.log.per_run
    if has_time and spec.nodes:
        _make(os.path.dirname(resolve(spec).log.latest), option, new=False)
        return spec, -1
    run = resolve(spec, claim_time(spec, option) if has_time else "")
    return run, open_directory(run.log.directory, run.job_id, shared=run.nodes is not None, option=option)


def _make(directory: str, option: str, *, new: bool = True) -> bool:
    """False: it was to be new, and another run has made it."""
    try:
        os.makedirs(directory, exist_ok=not new)
    except OSError as error:
        if new and isinstance(error, FileExistsError):
            return False
        raise UnwritableLogDir(directory, error.strerror or str(error), option) from None
    return True


def link_latest(log: LogSpec) -> str:
    """Let `latest` lead to this run. Returns why it does not, or nothing."""
    parent = os.path.dirname(log.latest)
    name = os.path.relpath(log.directory, parent).partition("/")[0]
    temporary = f"{log.latest}.{as_file_name(os.uname().nodename)}.{os.getpid()}.tmp"
    try:
        if os.path.lexists(log.latest) and not os.path.islink(log.latest):
            return f"`{log.latest}` is not a link, so it does not point to this run"
        os.symlink(name, temporary)
        os.replace(temporary, log.latest)
    except OSError as error:
        remove(temporary)
        return f"cannot create the link `{log.latest}`: {error.strerror}"
    return ""
