"""Errors about the roles of a job."""

from __future__ import annotations

from flota.errors import FlotaError, TemplateError


class NoWorkersHere(TemplateError[()]):
    message = "this node would not start any workers"
    hint = "set the number of workers of a role, e.g. --trainer_num 1 or --roles trainer=1"


class NoneOfRole(TemplateError[str, str, str]):
    message = "{0}: the job would have no {1}s"
    hint = "{2}"


class NoAddresses(FlotaError):
    def __init__(self, role: str, flag: str, counted: str) -> None:
        but = f"; {counted} sets a number, not addresses" if counted else ""
        hint = f"list all of them, e.g. {flag} 10.0.0.1:6170,10.0.0.2:6170"
        super().__init__(f"no {role} addresses given{but}", hint)


class UnusedScript(TemplateError[str, str]):
    message = "`{0}` would not be run: every role in {1} has its own script"
    hint = "run `flota` without a script, or run it from a directory without that file"


class DuplicateEndpoint(FlotaError):
    def __init__(self, endpoint: str, one: str, other: str) -> None:
        who = f"two {one}s" if one == other else f"a {one} and a {other}"
        super().__init__(f"`{endpoint}` is listed twice, for {who}", "use a different port for each")


class RolesCollide(TemplateError[str, str, str]):
    message = "the roles `{0}` and `{1}` would {2}"
    hint = "rename one of them"
