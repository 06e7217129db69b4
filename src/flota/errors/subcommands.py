"""Errors of `flota why` and `flota stack`."""

from __future__ import annotations

from flota.errors import FlotaError


class NoReport(FlotaError):
    def __init__(self, path: str) -> None:
        super().__init__(f"no job has left a report or events in `{path}`", "name its log directory: flota why LOG_DIR")


class NoRunningJob(FlotaError):
    def __init__(self, directory: str) -> None:
        super().__init__(
            f"no job of this machine is running with the log directory `{directory}`",
            "name the job's with --log_dir DIR",
        )


class NoSuchRank(FlotaError):
    def __init__(self, rank: int, here: str) -> None:
        super().__init__(
            f"rank {rank} is not running on this machine: those of {here} are",
            "run `flota stack` without a number to see who stands where, and with it on the machine that has the rank",
        )


class NoSpy(FlotaError):
    def __init__(self) -> None:
        super().__init__("stacks are read by py-spy, which is not here", "run `pip install 'flota[stacks]'`")


class StacksUnreadable(FlotaError):
    def __init__(self, why: str) -> None:
        super().__init__(
            f"stacks cannot be read: {why}",
            "run it as the job's user, and as root where `sysctl kernel.yama.ptrace_scope` is not 0; "
            "in a container with --cap-add SYS_PTRACE",
        )
