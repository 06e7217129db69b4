"""Errors of flota.spawn, of flota.launch and of the workers that they start."""

from __future__ import annotations

from errno import EMFILE

from flota.errors import BUG, TRY_AGAIN, FlotaError, TemplateError


class UnknownOption(FlotaError):
    def __init__(self, function: str, name: str, near: str) -> None:
        hint = (
            f"did you mean `{near}`?"
            if near
            else f"run `python -c 'import flota; help(flota.{function})'` to list them"
        )
        super().__init__(f"flota.{function} has no option `{name}`", hint)


class BadOption(TemplateError[str, object, str, str]):
    message = "invalid value `{1!r}` for {0}: expected {2}"
    hint = "for example {3}"


class DevicesDoNotFit(FlotaError):
    def __init__(self, option: str, devices: tuple[str, ...], nprocs: int) -> None:
        named = f"{len(devices)} device{'s' * (len(devices) != 1)}: `{','.join(devices)}`"
        words = f"nprocs={nprocs}, but {option} names {named}"
        super().__init__(words, f"use nprocs={len(devices)}, omit nprocs, or name {nprocs} devices")


class TooFewDevices(FlotaError):
    def __init__(self, devices: tuple[str, ...], nprocs: int) -> None:
        visible = "1 device is" if len(devices) == 1 else f"{len(devices)} devices are"
        words = f"nprocs={nprocs}, but only {visible} visible: `{','.join(devices)}`"
        super().__init__(words, f"use nprocs={len(devices)} or less, or devices='cpu' to use none of them")


class OtherDevices(FlotaError):
    def __init__(self, option: str, kind: str, visible: tuple[str, ...]) -> None:
        words = f"{option}: no such device is visible, only {kind} devices: `{','.join(visible)}`"
        super().__init__(words, f"name some of these, as in devices='{visible[0]}', or omit {option}")


class NotPicklable(TemplateError[str, str]):
    message = "`{0}` and its args cannot be sent to workers: {1}"
    hint = "define the function at the top level of a module, and create files, locks and the like inside it"


class DefinedInteractively(TemplateError[str]):
    message = "`{0}` is defined in a notebook or a shell, where workers cannot import it"
    hint = "run `pip install cloudpickle`, move the function to a module, or use start_method='fork'"


class MissingGuard(TemplateError[()]):
    message = "the script starts workers while it is imported, and each worker imports the script"
    hint = 'put the call under `if __name__ == "__main__":`'


class CannotStartNode(FlotaError):
    def __init__(self, error: OSError | RuntimeError) -> None:
        why = getattr(error, "strerror", None) or str(error)
        files = getattr(error, "errno", None) == EMFILE
        hint = "run `ulimit -n 65536` first" if files else "check `ulimit -u` and `free -m`"
        super().__init__(f"cannot start a process: {why}", hint)


class NodeLost(TemplateError[str]):
    exit_code = BUG
    message = "a flota process died: {0}; all workers were killed"
    hint = "run `dmesg | tail` to see whether the kernel killed it"


class TimedOut(TemplateError[float]):
    exit_code = TRY_AGAIN
    message = "workers did not finish within {0:g} s and were stopped"
    hint = "allow more time with timeout="


class WorkersStopped(TemplateError[()]):
    message = "the program stopped the workers before they finished"
    hint = "see workers.processes for the exit code of each worker"


class NoResult(TemplateError[int, str]):
    message = "rank {0} has no result: {1}"
    hint = "a worker has a result only if its function returned"


class RemoteTraceback(Exception):
    """A worker's own traceback, shown above the error that it caused."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


class WorkerFailed(FlotaError):
    """The first failure among the workers; the others were stopped.

    `exit_code` is the worker's own, or 128 + N after signal N; `signal` is N or None; `traceback` is the worker's, as
    text.
    """

    def __init__(self, message: str, rank: int, code: int, traceback: str, log: str) -> None:
        super().__init__(message, f"see its log: {log}" if log else "")
        self.rank = rank
        self.exit_code = code if code >= 0 else 128 - code
        self.signal = -code if code < 0 else None
        self.traceback = traceback
        self.log = log
        if traceback:
            self.__cause__ = RemoteTraceback(traceback)
