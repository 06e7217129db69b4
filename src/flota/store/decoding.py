"""Decodes JSON from the network, which may be anything: the only place that does. Pure."""

from typing import TypeVar

import msgspec

Value = TypeVar("Value")


class BadMessage(Exception):
    """The bytes are not a message of the expected type."""


def decode_json(data: bytes, kind: type[Value], *, strict: bool = True) -> Value:
    """Decode a value. Raises BadMessage, and nothing else. Without `strict`, numbers may be strings."""
    try:
        return msgspec.json.decode(data, type=kind, strict=strict)
    except (ValueError, RecursionError) as error:  # invalid JSON, types, UTF-8 or numbers; nested too deeply
        raise BadMessage(str(error)) from None
