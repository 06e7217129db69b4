"""Errors of commands that ask a running job."""

from __future__ import annotations

from flota.errors import FlotaError, TemplateError


class CannotAsk(FlotaError):
    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"cannot ask {where}: {why}", "list the running jobs of this machine with: flota ps")
        self.why = why


class NodeRefused(CannotAsk):
    """It has answered, and says why it does not do what was asked."""

    def __init__(self, where: str, why: str) -> None:
        FlotaError.__init__(self, f"{where} refused: {why}", "see the state of the job with: flota ps")
        self.why = why


class NoJobHere(TemplateError[()]):
    message = "no job of this user is running on this machine"
    hint = "for a job on other machines: FLOTA_TOKEN=… flota ps --at HOST:PORT"


class UnknownJob(TemplateError[str, str]):
    message = "no running job of this machine has the id or the pid `{0}`; running: {1}"
    hint = "list them with: flota ps"


class SeveralJobs(TemplateError[str]):
    message = "several jobs are running on this machine: {0}"
    hint = "choose one by its pid: --job PID"


class UnknownNode(TemplateError[str, str]):
    message = "the job has no node `{0}`; its nodes: {1}"
    hint = "list them with: flota ps --json"


class SeveralNodes(TemplateError[str, str]):
    message = "several nodes of the job are on `{0}`; its nodes: {1}"
    hint = "use the number of the node"


class MissingNode(TemplateError[()]):
    message = "flota drain needs a node: its number or its host name"
    hint = "list the nodes with: flota ps --json"


class TooManyWords(TemplateError[str, str]):
    message = "unexpected argument `{0}`"
    hint = "usage: {1}"


class NoRankInJob(TemplateError[str, str]):
    message = "the job has no {0}; it has {1}"
    hint = "show all with: flota logs --all"


class UnknownRole(TemplateError[str, str]):
    message = "the job has no role `{0}`; its roles: {1}"
    hint = "show all with: flota logs --all"


class NoLogs(TemplateError[str]):
    message = "there are no logs of a job in `{0}`"
    hint = "list the jobs with: flota ps -a; specify a log directory with: flota logs --log_dir DIR"


class NoWorkersYet(TemplateError[str]):
    message = "the workers of the job have not started yet: {0}"
    hint = "see what the job waits for with: flota ps"


class InteractiveJob(TemplateError[()]):
    message = "the job has no logs: with --interactive, its output is on its terminal only"
    hint = "run it without --interactive"


class NeedsTextual(TemplateError[str]):
    message = "{0} needs the package textual, which is not installed"
    hint = "run `pip install textual`, or `pip install '.[view]'` in a clone of flota"


class NeedsTerminal(TemplateError[str]):
    message = "{0} needs a terminal as standard input, output and error"
    hint = "for a job's state without a terminal, run `flota ps --json`"
