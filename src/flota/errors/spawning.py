"""Errors of functions as workers: flota.spawn, flota.launch and what they started."""

from __future__ import annotations

from errno import EMFILE

from flota.errors import BUG, TRY_AGAIN, FlotaError

GUARD = 'if __name__ == "__main__":'


class UnknownOption(FlotaError):
    def __init__(self, function: str, name: str, near: str) -> None:
        hint = f"did you mean `{near}`?" if near else f"run `python -c 'import flota; help(flota.{function})'`"
        super().__init__(f"flota.{function} has no option `{name}`", hint)


class BadOption(FlotaError):
    def __init__(self, name: str, given: object, expected: str, example: str) -> None:
        super().__init__(f"{name} needs {expected}: `{given!r}`", f"for example {example}")


class RefusedOption(FlotaError):
    def __init__(self, name: str, why: str, hint: str) -> None:
        super().__init__(f"`{name}` is refused: {why}", hint)


class DevicesDoNotFit(FlotaError):
    def __init__(self, option: str, devices: tuple[str, ...], nprocs: int) -> None:
        super().__init__(
            f"nprocs={nprocs}, but {option} names {len(devices)}: `{','.join(devices)}`",
            f"use nprocs={len(devices)}, leave nprocs out, or name {nprocs} devices",
        )


class TooFewDevices(FlotaError):
    def __init__(self, devices: tuple[str, ...], nprocs: int) -> None:
        super().__init__(
            f"nprocs={nprocs}, but this machine shows {len(devices)} devices: `{','.join(devices)}`",
            f"use nprocs={len(devices)} or less, or devices='cpu' to use none of them",
        )


class OtherDevices(FlotaError):
    def __init__(self, option: str, kind: str, visible: tuple[str, ...]) -> None:
        super().__init__(
            f"{option}: this machine shows none, but {kind} devices: `{','.join(visible)}`",
            f"name some of those, as in devices='{visible[0]}', or leave {option} out",
        )


class NotPicklable(FlotaError):
    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"`{name}` and its args cannot be sent to workers: {why}",
            "define the function at the top of a module, and open files, locks and the like inside of it",
        )


class DefinedInteractively(FlotaError):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"`{name}` is defined in a notebook or a shell, where workers cannot import it",
            "run `pip install cloudpickle`, or move it to a module, or use start_method='fork'",
        )


class MissingGuard(FlotaError):
    def __init__(self) -> None:
        super().__init__(
            "the script starts workers while it is imported, and each worker imports the script",
            f"put the call under `{GUARD}`",
        )


class CannotStartNode(FlotaError):
    def __init__(self, error: OSError | RuntimeError) -> None:
        why = getattr(error, "strerror", None) or str(error)
        files = getattr(error, "errno", None) == EMFILE
        hint = "run `ulimit -n 65536` first" if files else "run `ulimit -u` and `free -m` to see what is left"
        super().__init__(f"cannot start a process: {why}", hint)


class NodeLost(FlotaError):
    exit_code = BUG

    def __init__(self, ending: str) -> None:
        super().__init__(
            f"flota's own process ended with {ending}; all workers were ended", "run `dmesg | tail` to see who did it"
        )


class TimedOut(FlotaError):
    exit_code = TRY_AGAIN

    def __init__(self, seconds: float) -> None:
        super().__init__(f"workers did not end within {seconds:g} s, and were ended", "give them more with timeout=")


class WorkersStopped(FlotaError):
    def __init__(self) -> None:
        super().__init__(
            "the workers were ended by the program before they had ended by themselves",
            "see workers.processes for how each has ended",
        )


class NoResult(FlotaError):
    def __init__(self, rank: int, why: str) -> None:
        super().__init__(
            f"rank {rank} has no result: {why}", "call results() when all workers have ended by themselves"
        )


class RemoteTraceback(Exception):
    """Shown above the error that it caused: a worker's own traceback."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


class WorkerFailed(FlotaError):
    """The first failure among the workers; the others were stopped.

    `exit_code`: the worker's own, or 128 + N; `signal`: N, or None; `traceback`: the worker's, as text.
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
