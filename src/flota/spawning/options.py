"""What a call of flota.spawn asks for: its options as values, and the job that follows from them."""

from __future__ import annotations

import sys
from os import PathLike, fspath

from flota.cli.build_spec import absolute, count_cpus, count_threads
from flota.cli.convert import convert
from flota.cli.flags import BY_NAME
from flota.cli.settings import words_of
from flota.devices import KINDS, choose_devices, find_devices
from flota.errors import BadValue
from flota.errors.spawning import (
    BadOption,
    DevicesDoNotFit,
    OtherDevices,
    RefusedOption,
    TooFewDevices,
    UnknownOption,
)
from flota.job.spec import Command, DeviceSet, JobSpec, LogSpec
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

START_METHODS = ("spawn", "fork", "forkserver")
# The kinds of devices that each option may name; none: any.
DEVICE_OPTIONS: dict[str, tuple[str, ...]] = {"gpus": ("gpu", "intel_gpu", "musa"), "xpus": ("xpu",), "devices": ()}
MOST_WORKERS = 10_000  # each needs a port of its own
DEFAULTS: dict[str, Any] = {
    "start_method": "spawn",
    "with_rank": False,
    "gpus": None,
    "xpus": None,
    "devices": None,
    "ips": "127.0.0.1",
    "backend": "auto",
    "print_config": False,
    "framework": BY_NAME["framework"].default,
    "log_dir": None,
    "timeout": None,
    "grace": BY_NAME["grace"].default,
}
# What each option's value is, in the words of the command's flags, and an example.
KINDS_OF = {
    "ips": ("host", "ips='127.0.0.1'"),
    "backend": (BY_NAME["backend"].kind, "backend='gloo'"),
    "framework": ("frameworks", "framework='torch' or framework=['torch', 'jax']"),
    "timeout": ("duration", "timeout=30 or timeout='2m'"),
    "grace": ("duration", "grace=5 or grace='2m'"),
}


class SpawnOptions(NamedTuple):
    """One call, understood."""

    spec: JobSpec
    start_method: str
    with_rank: bool
    print_config: bool
    timeout: float | None
    logged: bool  # workers write to files, not to the console


def understand(name: str, nprocs: object, options: dict[str, Any], environ: Mapping[str, str]) -> SpawnOptions:
    refuse_unknown(options)
    given = {**DEFAULTS, **{option: value for option, value in options.items() if value is not None}}
    if given["start_method"] not in START_METHODS:
        raise BadOption(
            "start_method", given["start_method"], f"one of {', '.join(START_METHODS)}", "start_method='fork'"
        )
    if isinstance(nprocs, bool) or not isinstance(nprocs, int) or not (nprocs == -1 or 1 <= nprocs <= MOST_WORKERS):
        raise BadOption("nprocs", nprocs, f"a number of 1 to {MOST_WORKERS}, or -1 for all devices", "nprocs=2")
    if "," in str(given["ips"]):
        raise RefusedOption("ips", "functions are started on one machine", "run `flota --ips … train.py` on each")
    devices = devices_for(given, nprocs, environ)
    workers = nprocs if nprocs > 0 else len(devices.chosen) or count_cpus()
    spec = JobSpec(
        command=Command("function", name, (), sys.executable),
        workers=workers,
        grace=value_of("grace", given),
        log=LogSpec(log_directory(given["log_dir"])),
        devices=devices,
        address=value_of("ips", given),
        frameworks=value_of("framework", given),
        threads=count_threads("auto", workers, devices),
        backend=value_of("backend", given),
    )
    timeout = value_of("timeout", given) if given["timeout"] is not None else None
    return SpawnOptions(
        spec,
        given["start_method"],
        bool(given["with_rank"]),
        bool(given["print_config"]),
        timeout,
        logged=given["log_dir"] is not None,
    )


def refuse_unknown(options: dict[str, Any]) -> None:
    from difflib import get_close_matches

    for name in options:
        if name not in DEFAULTS:
            near = get_close_matches(name, list(DEFAULTS), 1, 0.6)
            raise UnknownOption("spawn", name, near[0] if near else "")


def value_of(option: str, given: dict[str, Any]) -> Any:
    """As the command takes a word of that kind; lists may be lists."""
    value = given[option]
    kind, example = KINDS_OF[option]
    if isinstance(value, dict):
        raise BadOption(option, value, "another kind of value", example)
    try:
        return convert(option, kind, words_of(value, one_each=False)[0])
    except BadValue as error:
        raise BadOption(option, value, error.expected, example) from None


def log_directory(given: object) -> str:
    if given is None:
        return ""
    if not isinstance(given, (str, PathLike)) or not fspath(given):
        raise BadOption("log_dir", given, "a directory", "log_dir='log'")
    return absolute(str(fspath(given)))


def devices_for(given: dict[str, Any], nprocs: int, environ: Mapping[str, str]) -> DeviceSet:
    """The devices named, as many as workers; else the first ones that this machine shows."""
    named = [option for option in DEVICE_OPTIONS if given[option] is not None]
    if len(named) > 1:
        raise RefusedOption(named[1], f"{named[0]} is given, too", f"give {named[0]} or {named[1]}, not both")
    if not named:
        devices = find_devices(environ)
        if devices.chosen and nprocs > len(devices.chosen):
            raise TooFewDevices(devices.chosen, nprocs)
        return devices._replace(chosen=devices.chosen[:nprocs]) if nprocs > 0 else devices
    [option] = named
    devices = choose_devices(find_devices_for(option, environ), device_words(option, given[option]), option)
    if devices.chosen and nprocs not in (-1, len(devices.chosen)):
        raise DevicesDoNotFit(option, devices.chosen, nprocs)
    return devices


def find_devices_for(option: str, environ: Mapping[str, str]) -> DeviceSet:
    """Whoever says gpus or xpus means these, and no others that the machine may have."""
    kinds = tuple(kind for kind in KINDS if kind.name in DEVICE_OPTIONS[option]) if DEVICE_OPTIONS[option] else KINDS
    found, any_ = find_devices(environ, kinds=kinds), find_devices(environ)
    if any_.visible and not found.visible:
        raise OtherDevices(option, any_.kind, any_.visible)
    return found


def device_words(option: str, given: object) -> str:
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    words = ",".join(str(one) for one in listed)
    if any(isinstance(one, bool) or not isinstance(one, (str, int)) for one in listed) or not words.strip(", "):
        raise BadOption(option, given, "devices", f"{option}='0,1' or {option}=[0, 1]")
    return words
