"""Errors of the subcommands, which examine a job."""

from __future__ import annotations

from flota.errors import INSTALL_SPY, TemplateError


class NoReport(TemplateError[str]):
    message = "no job has written a report or events to `{0}`"
    hint = "specify the job's log directory: flota why LOG_DIR"


class NoEvents(TemplateError[str]):
    message = "no job has written events to `{0}`"
    hint = "specify the job's log directory: flota report LOG_DIR"


class NoRunningJob(TemplateError[str]):
    message = "no running job on this machine uses the log directory `{0}`"
    hint = "specify the job's log directory with --log_dir DIR"


class NoSuchRank(TemplateError[int, str]):
    message = "rank {0} is not running on this machine; running here: {1}"
    hint = "run `flota stack` without ranks to find its machine, and run the command there"


class OnlyOnMachine(TemplateError[str]):
    message = "flota stack cannot read `{0}` from another machine: stacks are read on the machine of a rank"
    hint = "run `flota stack {0}` there; without it, flota stack prints what all ranks are waiting on"


class PySpyMissing(TemplateError[()]):
    message = "py-spy, which reads stacks, is not installed"
    hint = INSTALL_SPY


class StacksUnreadable(TemplateError[str]):
    message = "cannot read stacks: {0}"
    hint = (
        "run flota as the job's user, or as root if `sysctl kernel.yama.ptrace_scope` is not 0; "
        "start containers with --cap-add SYS_PTRACE"
    )


class CannotListen(TemplateError[str, str]):
    message = "cannot serve the page at {0}: {1}"
    hint = "without --listen, it is served on any free port of this machine's loopback address"


class MetricsMissing(TemplateError[()]):
    message = "prometheus_client, which writes metrics, is not installed"
    hint = "run `pip install prometheus_client`, or `pip install '.[metrics]'` in a clone of flota"


class CannotWrite(TemplateError[str, str]):
    message = "cannot write `{0}`: {1}"
    hint = "choose another file"
