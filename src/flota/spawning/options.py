"""Converts the options of flota.spawn to a JobSpec."""

import sys
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

from flota.cli.build_spec import count_cpus, count_threads, new_run_id, read_log_dir, with_bindings
from flota.cli.convert import MOST_WORKERS, convert
from flota.cli.flags import BY_NAME
from flota.cli.parse import nearest
from flota.cli.settings import to_words
from flota.devices import KINDS, choose_devices, find_devices
from flota.errors import BadValue, RefusedFlag
from flota.errors.spawning import BadOption, DevicesDoNotFit, OtherDevices, TooFewDevices, UnknownOption
from flota.job.spec import Command, DeviceSet, JobSpec, LogSpec
from flota.values import NamedTuple

# The kinds of devices that each option may name; empty for any kind.
DEVICE_OPTIONS: dict[str, tuple[str, ...]] = {"gpus": ("gpu", "intel_gpu", "musa"), "xpus": ("xpu",), "devices": ()}
# Options that are converted like flags of the command: default, kind of value, example.
CONVERTED: dict[str, tuple[Any, str, str]] = {
    "start_method": ("spawn", "choice:spawn,fork,forkserver", "start_method='fork'"),
    "ips": ("127.0.0.1", "host", "ips='127.0.0.1'"),
    "backend": ("auto", BY_NAME["backend"].kind, "backend='gloo'"),
    "framework": (BY_NAME["framework"].default, "frameworks", "framework='torch' or framework=['torch', 'jax']"),
    "bind": ("none", BY_NAME["bind"].kind, "bind='numa'"),
    "timeout": (None, "duration", "timeout=30 or timeout='2m'"),
    "grace": (BY_NAME["grace"].default, "duration", "grace=5 or grace='2m'"),
}
OPTIONS = (*CONVERTED, *DEVICE_OPTIONS, "with_rank", "print_config", "log_dir")


class SpawnOptions(NamedTuple):
    """The options of one call of flota.spawn."""

    spec: JobSpec
    start_method: str
    with_rank: bool
    print_config: bool
    timeout: float | None


def read_options(name: str, nprocs: object, options: dict[str, Any], environ: Mapping[str, str]) -> SpawnOptions:
    """Convert and check the options. `name` is the function's. A value of None means that an option is not given."""
    for unknown in (option for option in options if option not in OPTIONS):
        raise UnknownOption("spawn", unknown, nearest(unknown, list(OPTIONS)))
    given = {option: value for option, value in options.items() if value is not None}
    if isinstance(nprocs, bool) or not isinstance(nprocs, int) or not (nprocs == -1 or 1 <= nprocs <= MOST_WORKERS):
        raise BadOption("nprocs", nprocs, f"a number from 1 to {MOST_WORKERS}, or -1 for all devices", "nprocs=2")
    if "," in str(given.get("ips")):
        raise RefusedFlag("ips", "flota.spawn starts workers on one machine", "run `flota --ips … train.py` on each")
    values = {option: convert_option(option, given) for option in CONVERTED}
    devices = devices_for(given, nprocs, environ)
    workers = nprocs if nprocs > 0 else len(devices.chosen) or count_cpus()
    spec = JobSpec(
        command=Command("function", name, (), sys.executable),
        workers=workers,
        run_id=new_run_id(),
        grace=values["grace"],
        log=log_spec(given["log_dir"]) if "log_dir" in given else LogSpec(""),
        devices=devices,
        address=values["ips"],
        frameworks=values["framework"],
        threads=count_threads("auto", workers, devices),
        backend=values["backend"],
    )
    spec = with_bindings(spec, values["bind"]) if values["bind"] != "none" else spec
    return SpawnOptions(
        spec,
        values["start_method"],
        bool(given.get("with_rank")),
        bool(given.get("print_config")),
        values["timeout"],
    )


def convert_option(option: str, given: dict[str, Any]) -> Any:
    """Convert a value like the flag of the same kind; lists may be Python lists."""
    default, kind, example = CONVERTED[option]
    value = given.get(option, default)
    if value is None:
        return None
    if isinstance(value, dict):
        raise BadOption(option, value, "a value other than a dictionary", example)
    try:
        return convert(option, kind, to_words(value, one_each=False)[0])
    except BadValue as error:
        raise BadOption(option, value, error.expected, example) from None


def log_spec(given: object) -> LogSpec:
    if not isinstance(given, (str, PathLike)) or not fspath(given):
        raise BadOption("log_dir", given, "a directory", "log_dir='log'")
    directory, per_run = read_log_dir(str(fspath(given)), "log_dir")
    return LogSpec(directory, per_run=per_run)


def devices_for(given: dict[str, Any], nprocs: int, environ: Mapping[str, str]) -> DeviceSet:
    """Return the devices that an option names, one per worker; otherwise the first visible ones."""
    named = [option for option in DEVICE_OPTIONS if option in given]
    if len(named) > 1:
        raise RefusedFlag(named[1], f"{named[0]} is given as well", f"use {named[0]} or {named[1]}, not both")
    if not named:
        devices = find_devices(environ)
        if devices.chosen and nprocs > len(devices.chosen):
            raise TooFewDevices(devices.chosen, nprocs)
        return devices._replace(chosen=devices.chosen[:nprocs]) if nprocs > 0 else devices
    [option] = named
    # `gpus` and `xpus` name devices of these kinds only, not of others on the machine.
    kinds = tuple(kind for kind in KINDS if kind.name in DEVICE_OPTIONS[option] or not DEVICE_OPTIONS[option])
    found, any_ = find_devices(environ, kinds=kinds), find_devices(environ)
    if any_.visible and not found.visible:
        raise OtherDevices(option, any_.kind, any_.visible)
    devices = choose_devices(found, device_list(option, given[option]), option)
    if devices.chosen and nprocs not in (-1, len(devices.chosen)):
        raise DevicesDoNotFit(option, devices.chosen, nprocs)
    return devices


def device_list(option: str, given: object) -> str:
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    words = ",".join(str(one) for one in listed)
    if any(isinstance(one, bool) or not isinstance(one, (str, int)) for one in listed) or not words.strip(", "):
        raise BadOption(option, given, "devices", f"{option}='0,1' or {option}=[0, 1]")
    return words
