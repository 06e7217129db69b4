"""Errors about devices, and about the number of workers."""

from __future__ import annotations

from flota.errors import FlotaError, TemplateError, spelled


class UnknownDevice(FlotaError):
    def __init__(self, device: str, kind: str, visible: tuple[str, ...], option: str = "--devices") -> None:
        words = f"unknown {kind} device `{device}`: this machine has `{','.join(visible)}`"
        hint = f"choose one of these, e.g. {spelled(option, visible[0])}" if visible else ""
        if not visible:
            words = f"unknown device `{device}`: this machine has no devices"
            none = spelled("--devices" if option.startswith("-") else "devices", "cpu")
            hint = f"leave {option} out, or write {none}"
        super().__init__(words, hint)


class RepeatedDevice(FlotaError):
    def __init__(self, device: str, option: str = "--devices") -> None:
        super().__init__(f"{option} names `{device}` twice", "name each device once")


class TooManyWorkers(TemplateError[int, int]):
    message = "{0} workers need {0} devices, but --devices lists only {1}"
    hint = "use --nproc_per_node {1}, or list {0} devices"


class NoDevices(FlotaError):
    def __init__(self, asked: str) -> None:
        flag = asked.partition(" ")[0]
        super().__init__(f"{asked}: this machine has no such device", f"use another value, e.g. {flag} cpu")
