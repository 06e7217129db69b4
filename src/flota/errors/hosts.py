"""Errors of jobs that are started over ssh."""

from __future__ import annotations

from flota.errors import FlotaError, TemplateError


class BadHosts(TemplateError[str, str, str]):
    message = "{0} `{1}`: {2}"
    hint = "for example --hosts gpu01,gpu02:8 or --hosts 'gpu[01-16]'"


class BadHostfileLine(TemplateError[str, int, str]):
    message = "{0}, line {1}: {2}"
    hint = "write one host per line: `gpu01`, `gpu01:8` or `gpu01 slots=8`"


class EmptyHostfile(TemplateError[str]):
    message = "{0} names no hosts"
    hint = "write one host per line: `gpu01`, `gpu01:8` or `gpu01 slots=8`"


class HostsNotReady(FlotaError):
    """All problems of all hosts, in one table. Nothing was started."""

    has_rows = True

    def __init__(self, problems: list[tuple[str, str]], hosts: int, hint: str = "") -> None:
        bad = len({host for host, _ in problems})
        width = max(len(host) for host, _ in problems)
        rows = [f"  {host:<{width}}  {why}" for host, why in problems]
        head = f"{bad} of {hosts} host{'s' * (hosts > 1)} cannot run the job; nothing was started"
        super().__init__("\n".join([head, *rows]), hint)
