"""Makes texts from other nodes and from files safe for a terminal: printable and of limited length. Pure."""

from __future__ import annotations

from _collections_abc import Iterable

LONGEST_TEXT = 4096  # the longest path


def printable(text: str, longest: int = LONGEST_TEXT) -> str:
    """Replace unprintable characters, which file names may contain, and remove colours, as in log lines."""
    import re

    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)[:longest]
    return "".join(letter if letter.isprintable() or letter == "\t" else "?" for letter in text)


def printable_lines(text: str) -> str:
    """The same for each line of a text."""
    return "\n".join(map(printable, text.split("\n")))


def escaped(text: str) -> str:
    """A text in one line, such as a word of the user: `\\n` instead of a line break, and so on."""
    letters = (letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[:LONGEST_TEXT])
    return "".join(letters)


def are_printable(texts: Iterable[str]) -> bool:
    return all(text.replace("\t", " ").isprintable() and len(text) <= LONGEST_TEXT for text in texts)
