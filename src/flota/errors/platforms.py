"""Errors about what a platform has set in the environment."""

from __future__ import annotations

from flota.errors import TemplateError


class BadPlatformValue(TemplateError[str, str, str, str]):
    message = "{0}'s {1} is not {3}: `{2}`"
    hint = "specify the nodes: --nnodes 2 --master 10.0.0.1:8090 --rank 0, or use --nnodes 1 for this machine alone"


class NoFirstHost(TemplateError[str, int]):
    message = "{0} starts {1} nodes, but does not say which host is the first"
    hint = "name that host, with a free port: --master HOST:8090"
