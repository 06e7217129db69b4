"""Errors that are raised in the process of a training script."""

from __future__ import annotations

from flota.errors import FlotaError, TemplateError


def summarize(error: BaseException) -> str:
    """Return the error's type and message; the type alone if there is no message or `__str__` raises."""
    try:
        message = str(error).strip()
    except Exception:
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


class BadVariable(TemplateError[str, str, int]):
    message = "invalid value `{1}` for the variable {0}: expected a whole number, {2} or more"
    hint = "run `unset {0}`, or start the script with flota"


class NoFramework(FlotaError):
    def __init__(self, call: str, known: tuple[str, ...]) -> None:
        words = f"flota.{call}: the script has imported none of {', '.join(known)}"
        super().__init__(words, f'import one first, or name it: flota.init_parallel_env("{known[0]}")')


class SeveralFrameworks(FlotaError):
    def __init__(self, call: str, found: tuple[str, ...]) -> None:
        words = f"flota.{call}: {' and '.join(found)} have been imported, perhaps by a library that the script uses"
        super().__init__(words, f'name the one to use: flota.init_parallel_env("{found[0]}")')


class UnknownFramework(FlotaError):
    def __init__(self, given: object, known: tuple[str, ...]) -> None:
        super().__init__(f"unknown framework `{given}`", f"use one of {', '.join(known)}, or omit it")


class FrameworkMissing(TemplateError[str, str]):
    message = "{0} cannot be imported: {1}"
    hint = "run `pip install {0}`, or choose another interpreter with `flota --python PATH`"


class VariableMissing(TemplateError[str, str, int]):
    message = "{0} cannot connect {2} workers: {1} is not set"
    hint = "start the script with `flota`, without --framework or with --framework {0}"


class NotInitialised(TemplateError[()]):
    message = "flota.DataParallel: the workers are not connected yet"
    hint = "call flota.init_parallel_env() first"


class NoWrapper(TemplateError[str, str]):
    message = "flota.DataParallel: {0} has no model wrapper"
    hint = "{1}"


class NothingToRecord(TemplateError[object]):
    message = "flota.record takes a function, not `{0!r}`"
    hint = "write @flota.record before the script's main function, or flota.record() at the top of the script"


class NothingToCall(TemplateError[object]):
    message = "flota.on_stop takes a function without arguments, not `{0!r}`"
    hint = "write flota.on_stop(save)"


class NotInMainThread(TemplateError[()]):
    message = "flota.on_stop must be called in the main thread, which runs the callbacks"
    hint = "call it there, or poll flota.should_stop() in this thread"
