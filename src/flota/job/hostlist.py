"""Expands lists of hosts in the notation of Slurm: `gpu[01-04,07],login1`. Pure."""

from __future__ import annotations

from itertools import product

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_HOSTS = 65536


def expand_hosts(text: str) -> list[str]:
    """Return the hosts in order. Raises ValueError, with the reason, for anything else than such a list."""
    hosts: list[str] = []
    for word in _split(text):
        for host in _expand(word):
            if len(hosts) == MOST_HOSTS:
                raise ValueError(f"more than {MOST_HOSTS} hosts")
            hosts.append(host)
    return hosts


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    words, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise ValueError("brackets do not match")
        if letter == "," and not depth:
            words.append("")
        else:
            words[-1] += letter
    words = [word.strip() for word in words]
    if depth:
        raise ValueError("brackets do not match")
    if not all(words):
        raise ValueError("a name is empty")
    return words


def _expand(word: str) -> Iterator[str]:
    """Expand one name. Of several brackets, the last counts fastest."""
    head, *rest = word.split("[")
    parts: list[list[str]] = [[head]]
    for part in rest:
        ranges, _, tail = part.partition("]")
        numbers: list[str] = []
        for one in ranges.split(","):
            numbers += _numbers(one, MOST_HOSTS - len(numbers))
        parts += [numbers, [tail]]
    return ("".join(chosen) for chosen in product(*parts))


def _numbers(text: str, most: int) -> list[str]:
    """Expand `7` or `01-04`. The numbers are as wide as the first."""
    first, dash, last = text.strip().partition("-")
    last = last if dash else first
    if not (first.isascii() and first.isdecimal() and last.isascii() and last.isdecimal()):
        raise ValueError(f"`{text}` is not a number or a range")
    if int(last) < int(first):
        raise ValueError(f"the range `{text}` ends before it begins")
    if int(last) - int(first) >= most:
        raise ValueError(f"more than {MOST_HOSTS} hosts")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
