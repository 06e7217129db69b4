"""Errors of jobs with roles and of jobs on IPUs, which most jobs never import."""

from __future__ import annotations

from flota.errors import FlotaError


class NoneOfRole(FlotaError):
    def __init__(self, flag: str, role: str, remedy: str) -> None:
        super().__init__(f"{flag}: the job would have no {role}s", remedy)


class NoAddresses(FlotaError):
    def __init__(self, role: str, flag: str, counted: str) -> None:
        but = f"; {counted} counts, but does not say where" if counted else ""
        super().__init__(
            f"no address for a {role} on any node{but}", f"list all of them, as in {flag} 10.0.0.1:6170,10.0.0.2:6170"
        )


class UnusedScript(FlotaError):
    def __init__(self, script: str, file: str) -> None:
        super().__init__(
            f"`{script}` would not be run: every role in {file} has a script of its own",
            "leave it out, as in `flota`, or run it from a directory without that file",
        )


class TwiceListed(FlotaError):
    def __init__(self, endpoint: str, one: str, other: str) -> None:
        who = f"two {one}s" if one == other else f"a {one} and a {other}"
        super().__init__(f"`{endpoint}` is listed twice, for {who}", "give each a port of its own")


class RolesCollide(FlotaError):
    def __init__(self, one: str, other: str, what: str) -> None:
        super().__init__(f"the roles `{one}` and `{other}` would {what}", "rename one of them")


class MissingIpuArguments(FlotaError):
    def __init__(self, names: list[str], example: str) -> None:
        hint = f"write `{example}`; a file of this name is run by `flota ./ipu`"
        super().__init__(f"`ipu` needs {', '.join(names)}", hint)


class UnevenIpus(FlotaError):
    def __init__(self, ipus: int, step: int, why: str) -> None:
        below = ipus // step * step
        even = [f"--devices {count}" for count in (below, below + step) if count]
        super().__init__(f"--devices {ipus}: {why}", f"use {' or '.join(even)}")
