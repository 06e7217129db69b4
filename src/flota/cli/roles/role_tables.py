"""Roles of the user's own: counts from --roles, everything else from the tables `[roles.NAME]` of the config file."""

from __future__ import annotations

from typing import Any

from flota.cli.build_spec import RoleSet, resolve_command
from flota.cli.convert import MOST_WORKERS
from flota.cli.parse import nearest
from flota.cli.roles.paddle_roles import choose_mode, make_paddle_roles, refuse_other_counts
from flota.cli.settings import Request, in_words
from flota.devices import choose_devices
from flota.errors import BadConfigFile, BadValue, RolesCollide, UnknownKey, UnusedScript
from flota.job.roles import COORDINATOR, MIXED, ON_FAILURE, SERVER, Role, in_order, log_stem
from flota.job.spec import Command, DeviceSet

KEYS: dict[str, tuple[type, str]] = {
    "count": (int, "a number"),
    "script": (str, "a path in quotes"),
    "args": (list, "a list of words"),
    "devices": (str, "ids in quotes, all or none"),
    "env": (dict, "a table of variables"),
    "serves": (bool, "true or false"),
    "on_failure": (str, f"one of {', '.join(ON_FAILURE)}"),
}
SERVE = (SERVER, COORDINATOR, "ps", "scheduler")  # unless the table says otherwise
PLAIN = (str, int, float)


def make_tabled_roles(request: Request, found: DeviceSet, devices: DeviceSet) -> RoleSet:
    settings, script = request.settings, request.line.script
    if choose_mode(settings) != MIXED:
        return make_paddle_roles(settings, found, devices)  # --run_mode counts more than the file
    source = settings.source("roles") or f"`roles` in {settings.tables_from}"
    refuse_other_counts(settings, source, "roles have their own counts")
    counts = dict(settings["roles"])
    if len(counts) < len(settings["roles"]) or max(counts.values(), default=0) > MOST_WORKERS:
        expected = f"each role once, with a count of 0 to {MOST_WORKERS}"
        raise BadValue(source, in_words("roles", settings["roles"]), expected, f"{source} trainer=4,data=1")
    names = list(dict.fromkeys((*settings.tables, *counts)))
    tables = {name: _checked(name, settings.tables.get(name, {}), settings.tables_from) for name in names}
    _refuse_collisions(names)
    if script and all("script" in table for table in tables.values()):
        raise UnusedScript(script, settings.tables_from)
    serves = {name: table.get("serves", name in SERVE) for name, table in tables.items()}
    main = next((name for name in names if not serves[name]), names[0])
    by_word = {"all": devices, "none": choose_devices(found, "cpu")}
    roles = []
    for name, table in tables.items():
        # Unless told otherwise the main role has the job's devices and the others none.
        wanted = table.get("devices", "all" if name == main else "none")
        role = Role(
            name,
            counts.get(name, table.get("count", 1)),
            serves=serves[name],
            on_failure=table.get("on_failure", ON_FAILURE[0]),
            command=_command(table, request),
            env=tuple((key, _word(value)) for key, value in table.get("env", {}).items()),
            devices=by_word.get(wanted) or choose_devices(found, wanted),
        )
        roles.append(role)
    return RoleSet(MIXED, in_order(roles))


def _command(table: Any, request: Request) -> Command | None:
    """A role's own, or the job's with its own arguments, or just the job's."""
    script, args = table.get("script"), table.get("args")
    if script is None and args is None:
        return None
    line = request.line._replace(script=script or request.line.script, args=tuple(map(_word, args or ())))
    return resolve_command(request._replace(line=line))


def _checked(name: str, table: object, file: str) -> dict[str, Any]:
    """A table whose every key is known and of its kind, and whose words a program can be given."""
    where = f"roles.{name}"
    if not isinstance(table, dict):
        raise BadConfigFile(file, f"`{where}` is not a table")
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise BadValue("roles", name, "a name of letters and digits", "[roles.trainer]")
    for key, value in table.items():
        if key not in KEYS:
            raise UnknownKey(file, f"{where}.{key}", nearest(key, list(KEYS), 0.0))
        kind, fits = KEYS[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise BadConfigFile(file, f"`{where}.{key}` is `{value}`, not {fits}")
    if table.get("on_failure", ON_FAILURE[0]) not in ON_FAILURE:
        raise BadConfigFile(file, f"`{where}.on_failure` is `{table['on_failure']}`, not {KEYS['on_failure'][1]}")
    if not 0 <= int(table.get("count", 1)) <= MOST_WORKERS:
        raise BadValue(f"{where}.count", str(table["count"]), f"a number of 0 to {MOST_WORKERS}", "count = 2")
    words = [(f"{where}.args", word) for word in table.get("args", ())]
    words += [(f"{where}.env.{variable}", value) for variable, value in table.get("env", {}).items()]
    for place, word in words:
        if not isinstance(word, PLAIN) or "\0" in str(word):
            raise BadConfigFile(file, f"`{place}` has `{word!r}`, not a word or a number")
    for variable in table.get("env", {}):
        if not variable or "=" in variable or "\0" in variable:
            raise BadConfigFile(file, f"`{where}.env` has `{variable!r}`, which is no name of a variable")
    return table


def _word(value: object) -> str:
    """A value of the file as it would stand on a command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refuse_collisions(names: list[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        variable = f"FLOTA_ENDPOINTS_{name.replace('-', '_').upper()}"
        for thing, words in (
            (log_stem(name), f"write the same {log_stem(name)}.N"),
            (variable, f"share the variable {variable}"),
        ):
            other = seen.setdefault(thing, name)
            if other != name:
                raise RolesCollide(other, name, words)
