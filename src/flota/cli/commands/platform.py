"""`flota platform`: print which platform was detected here, by which variables, and which settings follow."""

import os
from collections.abc import Mapping
from textwrap import wrap

from flota.cli.flags import BY_NAME
from flota.cli.parse import parse
from flota.cli.platform_settings import add_platform_settings, read_host_file
from flota.cli.settings import Request, Settings, find_parent, format_value, gather, without_parents_variables
from flota.cli.table import table
from flota.errors import UnknownFlag
from flota.job.printable import printable
from flota.platforms import REGISTRY, Hints, Platform, find_platforms
from flota.values import NamedTuple

USAGE = """\
usage: flota platform [--json]

Print which platform flota detects here, by which variables, and which settings
`flota train.py` takes from it. Flags and FLOTA_… variables take precedence.

  --json    print the same as JSON
"""
SHOWN = (
    *("nnodes", "rank", "master", "master_addr", "master_port", "rdzv_endpoint"),
    *("nproc_per_node", "job_id", "log_dir", "grace"),
)
HEAD = ("setting", "value", "from")
WIDTH = 80
LONGEST = 30  # the width of a column


class Detected(NamedTuple):
    """A platform, and the settings of a job that is started here without flags."""

    platform: Platform
    hints: Hints
    settings: Settings
    notes: tuple[str, ...]
    others: tuple[str, ...]  # platforms that were detected as well, and come later in the order


def main(words: list[str]) -> int:
    if {"-h", "--help"} & set(words):
        print(USAGE, end="")
        return 0
    unknown = next((word for word in words if word != "--json"), "")
    if unknown:
        raise UnknownFlag(unknown, "--json")
    detected = detect_here(os.environ)
    print(as_json(detected) if words else "\n".join(map(printable, describe(detected, os.environ))))
    return 0


def detect_here(environ: Mapping[str, str]) -> Detected | None:
    found = find_platforms(environ, read_host_file)
    if not found:
        return None
    line, own = parse([]), without_parents_variables(environ)
    request = Request(line, gather({}, own, os.curdir), own, None, find_parent(environ))
    request = add_platform_settings(request, *found[0])
    others = tuple(platform.title for platform, _ in found[1:])
    return Detected(*found[0], request.settings, request.line.notes, others)


def describe(detected: Detected | None, environ: Mapping[str, str]) -> list[str]:
    if detected is None:
        order = f"flota looks for these platforms, in this order: {titles()}."
        inside = (
            ["This is a worker of flota: the platform's variables are for its parent."] if in_worker(environ) else []
        )
        return ["no platform", "", *inside, *wrap(order, WIDTH)]
    platform, found = detected.platform, rows(detected)
    lines = [
        *wrap(f"{platform.title}, recognized by {', '.join(platform.variables)}", WIDTH),
        "",
        *(table([HEAD, *found], LONGEST) if found else ["The platform does not change any setting."]),
    ]
    for note in detected.notes:
        lines += ["", *wrap(note, WIDTH)]
    if detected.others:
        order = f"{platform.title} comes first in the order {titles()}"
        lines += ["", *wrap(f"Also detected, and not used: {', '.join(detected.others)}. {order}.", WIDTH)]
    return lines


def in_worker(environ: Mapping[str, str]) -> bool:
    return "FLOTA_GIVEN" in environ


def titles() -> str:
    return ", ".join(platform.title for platform in REGISTRY)


def rows(detected: Detected) -> list[tuple[str, str, str]]:
    """The settings of a job that is started here: flag, value, source."""
    settings, title = detected.settings, detected.platform.title
    found = [(dest, settings.source(dest)) for dest in SHOWN if settings.source(dest)]
    values = [(f"--{dest}", as_text(dest, settings[dest]), source) for dest, source in found]
    if settings.hints and settings.hints.share:
        place, size = settings.hints.share.local_rank, settings.hints.share.local_size
        values.append(("local rank", f"{place} of {size}", title))
    if settings.hints and settings.hints.cpus:
        values.append(("CPUs", str(settings.hints.cpus), title))
    if settings.hints and settings.hints.restarts:
        values.append(("first attempt", str(settings.hints.restarts), title))
    return values


def as_text(dest: str, value: object) -> str:
    return f"{value:g}s" if BY_NAME[dest.replace("_", "-")].kind == "duration" else format_value(dest, value)


def as_json(detected: Detected | None) -> str:
    import json

    order = [platform.title for platform in REGISTRY]
    if detected is None:
        return json.dumps({"platform": None, "order": order}, indent=1)
    settings = {name.removeprefix("--"): {"value": value, "from": source} for name, value, source in rows(detected)}
    names = list(detected.platform.variables)
    return json.dumps(
        {
            "platform": detected.platform.title,
            "recognized_by": names,
            "settings": settings,
            "notes": list(detected.notes),
            "also_detected": list(detected.others),
            "order": order,
        },
        indent=1,
    )
