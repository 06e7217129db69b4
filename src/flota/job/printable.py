"""Texts that go to other nodes, and from there to terminals: printable, and of a length that can be borne. Pure."""

from __future__ import annotations

from _collections_abc import Iterable

LONGEST_TEXT = 4096  # a path


def printable(text: str, longest: int = LONGEST_TEXT) -> str:
    """Names may hold bytes that are no text, and lines of a log colours."""
    import re

    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)[:longest]
    return "".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in text)


def are_printable(texts: Iterable[str]) -> bool:
    return all(text.replace("\t", " ").isprintable() and len(text) <= LONGEST_TEXT for text in texts)
