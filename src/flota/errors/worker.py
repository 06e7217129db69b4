"""Errors that a training script can meet, raised in its own process."""

from __future__ import annotations

from flota.errors import FlotaError, TemplateError


def in_words(error: BaseException) -> str:
    """Its kind and what it says, if its own class, which may be the user's, can tell."""
    try:
        said = str(error).strip()
    except Exception:
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


class BadVariable(TemplateError[str, str, int]):
    message = "the variable {0} is not a number of {2} or more: `{1}`"
    hint = "run `unset {0}`, or start with flota"


class NoFramework(FlotaError):
    def __init__(self, call: str, known: tuple[str, ...]) -> None:
        words = f"flota.{call}: the script has imported none of {', '.join(known)}"
        super().__init__(words, f'import one before it, or name it: flota.init_parallel_env("{known[0]}")')


class SeveralFrameworks(FlotaError):
    def __init__(self, call: str, found: tuple[str, ...]) -> None:
        words = f"flota.{call}: {' and '.join(found)} have been imported, perhaps by one of the script's libraries"
        super().__init__(words, f'name the one to use: flota.init_parallel_env("{found[0]}")')


class UnknownFramework(FlotaError):
    def __init__(self, given: object, known: tuple[str, ...]) -> None:
        super().__init__(f"unknown framework `{given}`", f"name one of {', '.join(known)}, or none")


class FrameworkMissing(TemplateError[str, str]):
    message = "{0} cannot be imported: {1}"
    hint = "run `pip install {0}`, or name another interpreter with `flota --python PATH`"


class VariableMissing(TemplateError[str, str, int]):
    message = "{0} cannot find the other workers of {2}: {1} is not set"
    hint = "start the script with `flota`, without --framework or with --framework {0}"


class NotInitialised(TemplateError[()]):
    message = "flota.DataParallel: the workers are not connected yet"
    hint = "call flota.init_parallel_env() before it"


class NoWrapper(TemplateError[str, str]):
    message = "flota.DataParallel: {0} wraps no models"
    hint = "{1}"


class NothingToRecord(TemplateError[object]):
    message = "flota.record takes a function: `{0!r}`"
    hint = "write @flota.record before the script's main function, or flota.record() at the top of the script"


class NothingToCall(TemplateError[object]):
    message = "flota.on_stop takes a function without arguments: `{0!r}`"
    hint = "write flota.on_stop(save)"


class NotInMainThread(TemplateError[()]):
    message = "flota.on_stop: this is not the main thread, where callbacks are called"
    hint = "call it in the main thread, or ask flota.should_stop() in this one"
