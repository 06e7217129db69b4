"""`--log_dir` with placeholders, such as `runs/{job_id}/{time}`: a directory for each run. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PLACEHOLDERS = ("job_id", "time", "host", "pid")
TIME = "{time}"
LATEST = "latest"  # the name of the link to the last run


def find_mistake(path: str) -> str:
    """The first placeholder that does not exist, or a brace without its pair; empty if there is neither."""
    rest = path
    while "{" in rest or "}" in rest:
        before, opening, rest = rest.partition("{")
        if "}" in before:
            return "}"
        name, closing, rest = rest.partition("}")
        if not closing or "{" in name:
            return opening
        if name not in PLACEHOLDERS:
            return f"{{{name}}}"
    return ""


def split(path: str) -> tuple[str, str]:
    """The part of a path before its first component with a placeholder, and the part from there on."""
    components = path.split("/")
    first = next(number for number, component in enumerate(components) if "{" in component)
    root = "/" if path.startswith("/") else "."
    return "/".join(components[:first]) or root, "/".join(components[first:])


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with these values; placeholders without a value stay. A value never adds a component."""
    return "/".join(_fill_component(component, values) for component in template.split("/"))


def _fill_component(component: str, values: Mapping[str, str]) -> str:
    if "{" not in component:
        return component
    for name, value in values.items():
        component = component.replace(f"{{{name}}}", as_file_name(value))
    return f"{component}_" if component in (".", "..", LATEST) else component


def as_file_name(value: str) -> str:
    """A value without what has a meaning in a path or a template, or cannot be printed."""
    return "".join(char if char.isprintable() and char not in "/{}" else "_" for char in value) or "_"


def split_at_run(template: str) -> tuple[str, str, str] | None:
    """What is before, at and after the component that changes with each run: the first one with `{time}` or `{pid}`,
    else the first one with `{job_id}`. None if no component changes.
    """
    components = template.split("/")
    for names in (("{time}", "{pid}"), ("{job_id}",)):
        for number, component in enumerate(components):
            if any(name in component for name in names):
                return "/".join(components[:number]), component, "/".join(components[number + 1 :])
    return None
