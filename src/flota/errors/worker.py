"""Errors that a training script can meet, raised in its own process."""

from __future__ import annotations

from flota.errors import FlotaError


def in_words(error: BaseException) -> str:
    """Its kind and what it says, if its own class, which may be the user's, can tell."""
    try:
        said = str(error).strip()
    except Exception:
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


class BadVariable(FlotaError):
    def __init__(self, name: str, given: str, least: int) -> None:
        super().__init__(
            f"the variable {name} is not a number of {least} or more: `{given}`",
            f"run `unset {name}`, or start with flota",
        )


class NoFramework(FlotaError):
    def __init__(self, call: str, known: tuple[str, ...]) -> None:
        super().__init__(
            f"flota.{call}: the script has imported none of {', '.join(known)}",
            f'import one before it, or name it: flota.init_parallel_env("{known[0]}")',
        )


class SeveralFrameworks(FlotaError):
    def __init__(self, call: str, found: tuple[str, ...]) -> None:
        super().__init__(
            f"flota.{call}: {' and '.join(found)} have been imported, perhaps by one of the script's libraries",
            f'name the one to use: flota.init_parallel_env("{found[0]}")',
        )


class UnknownFramework(FlotaError):
    def __init__(self, given: object, known: tuple[str, ...]) -> None:
        super().__init__(f"unknown framework `{given}`", f"name one of {', '.join(known)}, or none")


class FrameworkMissing(FlotaError):
    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"{name} cannot be imported: {why}",
            f"run `pip install {name}`, or name another interpreter with `flota --python PATH`",
        )


class VariableMissing(FlotaError):
    def __init__(self, framework: str, variable: str, world_size: int) -> None:
        super().__init__(
            f"{framework} cannot find the other workers of {world_size}: {variable} is not set",
            f"start the script with `flota`, without --framework or with --framework {framework}",
        )


class NotInitialised(FlotaError):
    def __init__(self) -> None:
        super().__init__(
            "flota.DataParallel: the workers are not connected yet", "call flota.init_parallel_env() before it"
        )


class NoWrapper(FlotaError):
    def __init__(self, framework: str, instead: str) -> None:
        super().__init__(f"flota.DataParallel: {framework} wraps no models", instead)


class NothingToRecord(FlotaError):
    def __init__(self, given: object) -> None:
        super().__init__(
            f"flota.record takes a function: `{given!r}`",
            "write @flota.record before the script's main function, or flota.record() at the top of the script",
        )


class NothingToCall(FlotaError):
    def __init__(self, given: object) -> None:
        super().__init__(f"flota.on_stop takes a function without arguments: `{given!r}`", "write flota.on_stop(save)")


class NotInMainThread(FlotaError):
    def __init__(self) -> None:
        super().__init__(
            "flota.on_stop: this is not the main thread, where callbacks are called",
            "call it in the main thread, or ask flota.should_stop() in this one",
        )
