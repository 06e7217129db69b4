"""Writes dictionaries, lists, strings, numbers and booleans as YAML, the way people write manifests. Pure."""

from __future__ import annotations

import json
import re

PLAIN = re.compile(r"(?:[A-Za-z_/]|-(?=[\w/-])|\.(?=[\w/]))(?:[\w./@=+%~$(){}-]|:(?=\S)|,(?=\S))*", re.ASCII)
QUANTITY = re.compile(r"[1-9][0-9]*(?:m|[KMGT]i?)")  # of Kubernetes, such as 64Gi
# What YAML 1.1 or 1.2 reads as something other than a string.
RESERVED = re.compile(r"(?:y|n|yes|no|on|off|true|false|null|---|[-+]?\.(?:inf|nan)|[-+.]*[0-9].*)", re.IGNORECASE)
# Text that keeps its form in a block: printable, no tabs that indent, no space at the ends of lines, not only newlines.
BLOCK = re.compile(r"(?!\s)(?:[^\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]|\n)*")


def write_yaml(documents: list[dict[str, object]]) -> str:
    return "---\n".join("".join(f"{line}\n" for line in _lines(document)) for document in documents)


def _lines(value: object) -> list[str]:
    """A value as lines; those of a dictionary or list are block style unless it is empty."""
    if isinstance(value, dict) and value:
        return [line for key, part in value.items() for line in _entry(f"{_scalar(str(key))}:", part)]
    if isinstance(value, list) and value:
        return [line for part in value for line in _item(part)]
    return [_scalar(value)]


def _entry(head: str, value: object) -> list[str]:
    """A key and its value."""
    if isinstance(value, str) and "\n" in value and BLOCK.fullmatch(value):
        chomping = "-" if not value.endswith("\n") else "+" if value.endswith("\n\n") else ""
        text = value.removesuffix("\n").split("\n")
        return [f"{head} |{chomping}", *(f"  {line}" if line else "" for line in text)]
    lines = _lines(value)
    if isinstance(value, list) and value:
        return [head, *lines]  # not indented, as kubectl writes lists
    if isinstance(value, dict) and value:
        return [head, *(f"  {line}" if line else "" for line in lines)]
    return [f"{head} {lines[0]}"]


def _item(value: object) -> list[str]:
    """One item of a list."""
    first, *rest = _lines(value)
    return [f"- {first}", *(f"  {line}" if line else "" for line in rest)]


def _scalar(value: object) -> str:
    if value is None or isinstance(value, (bool, int, float, dict, list)):
        return json.dumps(value)
    text = str(value)
    if QUANTITY.fullmatch(text) or (PLAIN.fullmatch(text) and not RESERVED.fullmatch(text)):
        return text
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    if character > "\uffff" and not character.isprintable():
        return f"\\U{ord(character):08x}"
    return json.dumps(character, ensure_ascii=not character.isprintable())[1:-1]
