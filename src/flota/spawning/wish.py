"""What a call of flota.spawn asks for: its options as values, and the job that follows from them."""

from __future__ import annotations

import sys

from flota.cli.convert import convert
from flota.cli.flags import BY_NAME
from flota.cli.settings import words_of
from flota.cli.spec import absolute, count_cpus, count_threads
from flota.devices import choose_devices, find_devices
from flota.errors import BadValue, FlotaError
from flota.errors.spawning import BadOption, DevicesDoNotFit, RefusedOption, UnknownOption
from flota.job.spec import Command, DeviceSet, JobSpec, LogWish
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

START_METHODS = ("spawn", "fork", "forkserver")
DEVICE_OPTIONS = ("gpus", "xpus", "devices")
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
    "framework": None,
    "log_dir": None,
    "timeout": None,
}


class Wish(NamedTuple):
    """One call, understood."""

    spec: JobSpec
    start_method: str
    with_rank: bool
    print_config: bool
    timeout: float | None
    logged: bool  # workers write to files, not to the console


def understand(name: str, nprocs: object, options: dict[str, Any], environ: Mapping[str, str]) -> Wish:
    refuse_unknown(options)
    given = {**DEFAULTS, **options}
    if given["start_method"] not in (*START_METHODS, None):
        raise BadOption("start_method", given["start_method"], f"one of {', '.join(START_METHODS)}", "'spawn'")
    if isinstance(nprocs, bool) or not isinstance(nprocs, int) or not (nprocs == -1 or 1 <= nprocs <= MOST_WORKERS):
        raise BadOption("nprocs", nprocs, f"a number of 1 to {MOST_WORKERS}, or -1 for all devices", "nprocs=2")
    if "," in str(given["ips"]):
        raise RefusedOption("ips", "functions are started on one machine", "run `flota --ips … train.py` on each")
    devices = devices_for(given, nprocs, environ)
    workers = nprocs if nprocs > 0 else len(devices.chosen) or count_cpus()
    logged = given["log_dir"] is not None
    frameworks = given["framework"]
    spec = JobSpec(
        command=Command("function", name, (), sys.executable),
        workers=workers,
        log=LogWish(absolute(str(given["log_dir"])) if logged else ""),
        devices=devices,
        address=str(given["ips"]),
        frameworks=BY_NAME["framework"].default if frameworks is None else value_of("framework", frameworks),  # type: ignore[arg-type]
        threads=count_threads("auto", workers, devices),
        backend=value_of("backend", given["backend"]),  # type: ignore[arg-type]
    )
    timeout: Any = None if given["timeout"] is None else value_of("grace", given["timeout"], name="timeout")
    return Wish(
        spec, given["start_method"] or "spawn", bool(given["with_rank"]), bool(given["print_config"]), timeout, logged
    )


def refuse_unknown(options: dict[str, Any]) -> None:
    from difflib import get_close_matches

    for name in options:
        if name not in DEFAULTS:
            near = get_close_matches(name, list(DEFAULTS), 1, 0.6)
            raise UnknownOption("spawn", name, near[0] if near else "")


def value_of(flag: str, value: object, name: str = "") -> object:
    """As the command's flag of that kind takes it; lists may be lists."""
    name = name or flag
    try:
        return convert(name, BY_NAME[flag].kind, words_of(value, one_each=False)[0])
    except BadValue as error:
        error.hint = error.hint.replace(f"{name} ", f"{name}=")
        raise


def devices_for(given: dict[str, Any], nprocs: int, environ: Mapping[str, str]) -> DeviceSet:
    """The devices named, as many as workers; else the first ones that this machine shows."""
    named = [option for option in DEVICE_OPTIONS if given[option] is not None]
    if len(named) > 1:
        raise RefusedOption(named[1], f"{named[0]} is given, too", f"give {named[0]} or {named[1]}, not both")
    option = named[0] if named else ""
    wanted = words_of(given[option], one_each=False)[0] if option else None
    try:
        devices = choose_devices(find_devices(environ), wanted)
    except FlotaError as error:
        raise in_words_of_python(error, option) from None
    if devices.by_id and devices.chosen and nprocs not in (-1, len(devices.chosen)):
        raise DevicesDoNotFit(option, devices.chosen, nprocs)
    return devices._replace(chosen=devices.chosen[:nprocs]) if nprocs > 0 else devices


def in_words_of_python(error: FlotaError, option: str) -> FlotaError:
    """The same error, of an option instead of a flag."""
    error.message = error.message.replace("--devices", option)
    error.args = (error.message,)
    hint = error.hint.replace("leave --devices out", f"leave {option} out")
    error.hint = hint.replace("--devices cpu", "devices='cpu'").replace("--devices ", f"{option}=")
    return error
