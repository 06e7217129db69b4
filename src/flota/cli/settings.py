"""Every setting and its source. Precedence: command line, FLOTA_*, other tools' variables, config file, built-in.

Values from the platform (platform_settings.py) come between the last two.
"""

from __future__ import annotations

import os

from flota import errors
from flota.cli.flags import ALIASES, BY_NAME, FLAGS, find_flag
from flota.cli.parse import TYPO, CommandLine, Given, nearest, store
from flota.frameworks import SECRETS
from flota.platforms import find_marked
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from flota.platforms import Hints

CONFIG_FILES = (("flota.toml", b""), ("pyproject.toml", b"[tool.flota"))
OWN = "FLOTA_"  # begins flota's own variables
PRECEDENCES = (("-", 4), (OWN, 3), ("`", 1))  # by the start of a source's name
OTHER_TOOLS = 2  # the precedence of another tool's variable
NOT_FLAGS = (*SECRETS, "FLOTA_ETCD_USER")  # settings that only variables can have
NEVER_IN_ENVIRONMENT = ("help", "version", "dry_run", "json", "hosts", "hostfile")  # nor in the config file


class Settings:
    """Values of flags by destination, each with its source. Flags that were not given have their defaults.

    `hints`: what the platform specifies, as far as it is used; `tables`: [roles.NAME] of the config file;
    `submit`: its [submit.ENGINE]; `host_groups`: its [hosts].
    """

    def __init__(
        self,
        given: dict[str, Given],
        tables: dict[str, object] | None = None,
        tables_from: str = "",
        hints: Hints | None = None,
        submit: dict[str, object] | None = None,
        host_groups: dict[str, object] | None = None,
    ) -> None:
        self.given = given
        self.submit = submit or {}
        self.host_groups = host_groups or {}
        self.tables = tables or {}
        self.tables_from = tables_from
        self.hints = hints

    def __getitem__(self, dest: str) -> Any:
        found = self.given.get(dest)
        return found.value if found else BY_NAME[dest.replace("_", "-")].default

    def source(self, dest: str) -> str:
        """How the user spelled it; empty for a default."""
        found = self.given.get(dest)
        return found.source if found else ""

    def spelled(self, dest: str) -> str:
        """A flag with its value, as the user has given it."""
        return f"{self.source(dest)} {format_value(dest, self[dest])}"


class Request(NamedTuple):
    """One call of flota: its command line, its settings from all sources, and its environment."""

    line: CommandLine
    settings: Settings
    environ: dict[str, str]
    interpreter: str | None  # the one that runs `python -m flota`
    parent: tuple[str, str] = ("", "")  # of a flota in a worker of another flota: the log directory and worker of that


def read_request(line: CommandLine, interpreter: str | None) -> Request:
    environ = without_parents_variables(os.environ)
    request = Request(line, gather(line.given, environ, os.curdir), environ, interpreter, find_parent(os.environ))
    if find_marked(environ):  # lookups in os.environ would take several times as long
        from flota.cli.platform_settings import read_platform

        return read_platform(request, os.environ)
    return request


def find_log_dir(environ: Mapping[str, str]) -> tuple[str, str]:
    """The log directory of a job that is started here without --log_dir, and the source of that."""
    settings = gather({}, without_parents_variables(environ), os.curdir)
    return settings["log_dir"], settings.source("log_dir")


def format_value(dest: str, value: object) -> str:
    """A value as the user would write it: lists with commas, pairs as NAME=N, numbers of nodes as MIN:MAX."""
    if not isinstance(value, tuple):
        return str(value)
    if dest == "nnodes":
        return ":".join(str(number) for number in dict.fromkeys(value))
    return ",".join("=".join(map(str, part)) if isinstance(part, tuple) else str(part) for part in value)


def precedence(source: str) -> int:
    """The precedence of a source as a number, to compare settings that mean the same."""
    return next((level for start, level in PRECEDENCES if source.startswith(start)), OTHER_TOOLS if source else 0)


def gather(given: dict[str, Given], environ: Mapping[str, str], directory: str) -> Settings:
    settings = _from_config_file(directory)
    settings.given |= {**_from_environment(environ), **given}
    return settings


def without_parents_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables that a parent flota set: flota in a worker starts a separate job."""
    # The empty name is dropped as well: such a variable cannot be passed to a worker.
    dropped = {"", "FLOTA_GIVEN", *environ.get("FLOTA_GIVEN", "").split(",")}
    return {name: value for name, value in environ.items() if name not in dropped}


def find_parent(environ: Mapping[str, str]) -> tuple[str, str]:
    """The log directory of the flota that started this process as a worker, and the worker's role and rank."""
    names = ("FLOTA_LOG_DIR", "FLOTA_ROLE", "FLOTA_RANK")
    if not set(names) <= set(environ.get("FLOTA_GIVEN", "").split(",")):
        return "", ""
    directory, role, rank = (environ.get(name, "") for name in names)
    return directory, f"{role}.{rank}"


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Warnings about FLOTA_* variables that set nothing, each with the nearest name that does."""
    own = [name.removeprefix(OWN) for name, value in environ.items() if value and name.startswith(OWN)]
    if not own:
        return []
    names = [flag.name for flag in FLAGS if flag.dest not in NEVER_IN_ENVIRONMENT and not flag.refused]
    names += [alias.name for alias in ALIASES]
    known = [name.replace("-", "_").upper() for name in names] + [name.removeprefix(OWN) for name in NOT_FLAGS]
    warnings = []
    for name in (name for name in own if name not in known):
        near = next((one for one in known if one.startswith(name)), "") or nearest(name, known)
        if name.lower() in NEVER_IN_ENVIRONMENT:
            warnings.append(f"{OWN}{name} has no effect; write --{name.lower()}")
        else:
            warnings.append(f"unknown variable {OWN}{name}{f'; did you mean {OWN}{near}?' if near else ''}")
    return warnings


def _from_environment(environ: Mapping[str, str]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    aliased: dict[str, str] = {}
    for alias in ALIASES:
        own = f"{OWN}{alias.name.replace('-', '_').upper()}"
        aliased[alias.of] = f"{aliased.get(alias.of, '')} {own} {alias.variables}"
    for flag in FLAGS:
        if flag.dest in NEVER_IN_ENVIRONMENT or flag.refused:
            continue
        for variable in (f"{OWN}{flag.dest.upper()}", *flag.variables.split(), *aliased.get(flag.name, "").split()):
            word = environ.get(variable, "")
            if word:
                store(given, flag, variable, word)
                break
    return given


def _from_config_file(directory: str) -> Settings:
    for name, marker in CONFIG_FILES:
        try:
            with open(os.path.join(directory, name), "rb") as file:
                content = file.read()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise errors.BadConfigFile(name, error.strerror or "unreadable") from None
        if marker in content:
            table = _parse_config(name, content)
            roles, submit, groups = table.pop("roles", {}), table.pop("submit", {}), table.pop("hosts", {})
            if not isinstance(roles, dict):
                raise errors.BadConfigFile(name, "`roles` is not a table of tables")
            if not isinstance(submit, dict):
                raise errors.BadConfigFile(name, "`submit` is not a table of tables")
            if not isinstance(groups, dict):
                raise errors.BadConfigFile(name, "`hosts` is not a table of groups; name hosts with --hosts")
            return Settings(_read_config(name, table), roles, name, submit=submit, host_groups=groups)
    return Settings({})


def _parse_config(name: str, content: bytes) -> dict[str, object]:
    import tomllib

    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise errors.BadConfigFile(name, str(error)) from None
    if name == "pyproject.toml":
        table = table["tool"].get("flota", {}) if isinstance(table.get("tool"), dict) else {}
        if not isinstance(table, dict):
            raise errors.BadConfigFile(name, "`tool.flota` is not a table")
    return table


def _read_config(name: str, table: dict[str, object]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    for key, value in table.items():
        flag = find_flag(key)
        if flag is None or flag.dest in NEVER_IN_ENVIRONMENT:
            raise errors.UnknownKey(name, key, nearest(key.replace("_", "-"), list(BY_NAME), TYPO))
        for word in to_words(value, one_each=flag.kind == "env"):
            store(given, flag, f"`{key}` in {name}", word)
    return given


def to_words(value: object, *, one_each: bool) -> list[str]:
    """A value of the config file as words of the command line."""
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, (list, tuple)):
        return [str(part) for part in value] if one_each else [",".join(str(part) for part in value)]
    if isinstance(value, dict):
        return [f"{name}={word}" for name, word in value.items()]
    return [str(value)]
