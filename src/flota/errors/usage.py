"""Errors about the command line, the config file and the script."""

from __future__ import annotations

from flota.errors import FlotaError, TemplateError


class UnknownFlag(FlotaError):
    def __init__(self, flag: str, near: str, hint: str = "") -> None:
        otherwise = "the script's flags go after the script; run `flota --help all` to list flota's flags"
        super().__init__(f"unknown flag `{flag}`", hint or (f"did you mean {near}?" if near else otherwise))


class AbbreviatedFlag(FlotaError):
    def __init__(self, flag: str, names: list[str]) -> None:
        super().__init__(f"flags cannot be abbreviated: `{flag}`", f"write {' or '.join(names)}")


class MissingValue(FlotaError):
    def __init__(self, flag: str, metavar: str) -> None:
        super().__init__(f"{flag} needs a value", f"write {flag} {metavar or 'VALUE'}")


class BadValue(FlotaError):
    def __init__(self, flag: str, given: str, expected: str, example: str) -> None:
        super().__init__(
            f"invalid value `{given}` for {flag}: expected {expected}", f"for example {example}" if example else ""
        )
        self.expected = expected


class RefusedFlag(FlotaError):
    def __init__(self, flag: str, why: str, hint: str = "leave it out") -> None:
        super().__init__(f"cannot use `{flag}`: {why}", hint)


class Contradiction(TemplateError[str, str, str]):
    message = "{0} and {1} contradict each other: {2}"
    hint = "give {0} or {1}, not both"


class OnlyWith(TemplateError[str, str]):
    message = "{0} has an effect only with {1}"
    hint = "add {1}"


class NeedsUseEnv(TemplateError[str]):
    message = "{0}: the program might not accept the --local-rank that flota would insert"
    hint = "add --use-env"


class UnknownKey(FlotaError):
    def __init__(self, file: str, key: str, near: str) -> None:
        hint = f"did you mean `{near}`?" if near else "keys are flag names: run `flota --help all` to list them"
        super().__init__(f"unknown key `{key}` in {file}", hint)


class BadConfigFile(TemplateError[str, str]):
    message = "cannot read {0}: {1}"
    hint = "fix the file or remove it"


class NoScript(FlotaError):
    def __init__(self, example: str = "flota train.py") -> None:
        super().__init__("no script given", f"run `{example}`, or `flota --help` for help")


class MissingScript(FlotaError):
    def __init__(self, path: str, near: str) -> None:
        otherwise = "check the path; flota's flags go before the script"
        super().__init__(f"no such script: `{path}`", f"did you mean `{near}`?" if near else otherwise)


class ScriptIsDirectory(TemplateError[str, str]):
    message = "the script is a directory: `{0}`"
    hint = "name a file in it, e.g. `flota {1}`"


class MissingProgram(FlotaError):
    def __init__(self, name: str, hint: str = "") -> None:
        super().__init__(f"no such program: `{name}`", hint or f"run `command -v {name}` to see whether it is on PATH")


class BadInterpreter(TemplateError[str]):
    message = "no interpreter at `{0}`"
    hint = "choose another with --python PATH"


class NoWorkingDirectory(TemplateError[()]):
    message = "the working directory no longer exists"
    hint = "change to a directory that exists"


class UnknownPlaceholder(FlotaError):
    def __init__(self, source: str, path: str, part: str) -> None:
        what = f"`{part}` is not a placeholder" if len(part) > 1 else f"unmatched `{part}`"
        flag = "log_dir=" if source == "log_dir" else "--log_dir "
        hint = f"use {{job_id}}, {{time}}, {{host}} or {{pid}}, as in {flag}'runs/{{job_id}}/{{time}}'"
        super().__init__(f"{source} `{path}`: {what}", hint)


class UnsupportedSystem(TemplateError[str]):
    message = "flota does not run on {0}"
    hint = "run it on Linux"


class MissingIpuArguments(FlotaError):
    def __init__(self, names: list[str], example: str) -> None:
        hint = f"write `{example}`; to run a file named ipu, write `flota ./ipu`"
        super().__init__(f"`ipu` needs {', '.join(names)}", hint)


class UnevenIpus(FlotaError):
    def __init__(self, ipus: int, step: int, why: str) -> None:
        below = ipus // step * step
        even = [f"--devices {count}" for count in (below, below + step) if count]
        super().__init__(f"--devices {ipus}: {why}", f"use {' or '.join(even)}")
