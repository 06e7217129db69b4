"""Roles of the user's own: counts from --roles, everything else from the tables `[roles.NAME]` of the config file."""

from __future__ import annotations

from flota.cli.parse import CommandLine
from flota.cli.roles import Cast, choose_mode
from flota.cli.script import resolve_command
from flota.cli.settings import Settings
from flota.devices import choose_devices
from flota.errors import BadConfigFile, BadValue, UnknownKey
from flota.errors.roles import RolesCollide
from flota.job.roles import COORDINATOR, MIXED, ON_FAILURE, SERVER, Role, in_order, log_stem
from flota.job.spec import Command, DeviceSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

KEYS: dict[str, type | tuple[type, ...]] = {
    "count": int,
    "script": str,
    "args": list,
    "devices": str,
    "env": dict,
    "serves": bool,
    "on_failure": str,
}
SERVE = (SERVER, COORDINATOR, "ps", "scheduler")  # unless the table says otherwise
MOST = 10_000


def make_mixture(
    settings: Settings,
    line: CommandLine,
    environ: Mapping[str, str],
    interpreter: str | None,
    found: DeviceSet,
    devices: DeviceSet,
) -> Cast:
    choose_mode(settings)
    counts: Any = dict(settings["roles"])  # type: ignore[call-overload]
    names = list(dict.fromkeys((*settings.tables, *counts)))
    tables = {name: _checked(name, settings.tables.get(name, {}), settings.tables_from) for name in names}
    _refuse_collisions(names)

    def role(name: str) -> Role:
        table: Any = tables[name]
        command = _command(table, line, settings, environ, interpreter)
        return Role(
            name,
            counts.get(name, table.get("count", 1)),
            serves=table.get("serves", name in SERVE),
            on_failure=table.get("on_failure", ON_FAILURE[0]),
            command=command,
            env=tuple((key, str(value)) for key, value in table.get("env", {}).items()),
        )

    roles = in_order([role(name) for name in names])
    main = next((one.name for one in roles if not one.serves), roles[0].name)
    none = choose_devices(found, "cpu")
    return Cast(
        MIXED, tuple(one._replace(devices=_devices(tables[one.name], one, main, found, devices, none)) for one in roles)
    )


def _devices(table: Any, role: Role, main: str, found: DeviceSet, devices: DeviceSet, none: DeviceSet) -> DeviceSet:
    """As told: ids, `all` or `none`; otherwise the main role has the job's and the others none."""
    wish = table.get("devices")
    if wish is None:
        return devices if role.name == main else none
    return {"all": devices, "none": none}.get(wish) or choose_devices(found, wish)


def _command(
    table: Any, line: CommandLine, settings: Settings, environ: Mapping[str, str], interpreter: str | None
) -> Command | None:
    """A role's own, or the job's with its own arguments, or just the job's."""
    script, args = table.get("script"), table.get("args")
    if script is None and args is None:
        return None
    words = tuple(str(word) for word in args or ())
    return resolve_command(line._replace(script=script or line.script, args=words), settings, environ, interpreter)


def _checked(name: str, table: object, file: str) -> dict[str, object]:
    """A table whose every key is known and of its kind."""
    where = f"roles.{name}"
    if not isinstance(table, dict):
        raise BadConfigFile(file, f"`{where}` is not a table")
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise BadValue("roles", name, "a name of letters and digits", "[roles.trainer]")
    for key, value in table.items():
        if key not in KEYS:
            raise UnknownKey(file, f"{where}.{key}", next((known for known in KEYS if known[:3] == key[:3]), ""))
        kind = KEYS[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise BadConfigFile(file, f"`{where}.{key}` is `{value}`")
    if table.get("on_failure", ON_FAILURE[0]) not in ON_FAILURE:
        raise BadValue(f"{where}.on_failure", str(table["on_failure"]), f"one of {', '.join(ON_FAILURE)}", "")
    if not 0 <= int(table.get("count", 1)) <= MOST:
        raise BadValue(f"{where}.count", str(table["count"]), f"a number of 0 to {MOST}", "count = 2")
    return table


def _refuse_collisions(names: list[str]) -> None:
    stems: dict[str, str] = {}
    for name in names:
        other = stems.setdefault(log_stem(name), name)
        if other != name:
            raise RolesCollide(other, name, log_stem(name))
