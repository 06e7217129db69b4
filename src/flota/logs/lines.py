"""Bytes to whole lines with a prefix. Pure; bytes stay as they are."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_LINE = 1 << 20


def split_at_last_line(data: bytes) -> tuple[bytes, bytes]:
    """Whole lines, and the beginning of the next one. A line that never ends is let go in pieces."""
    cut = data.rfind(b"\n") + 1
    if cut == 0 and len(data) > LONGEST_LINE:
        cut = len(data)
    return data[:cut], data[cut:]


def prefixed(body: bytes, prefix: bytes) -> tuple[bytes | memoryview, ...]:
    """Whole lines, each behind the prefix: one copy of the body, and no line is taken apart."""
    if not prefix or not body:
        return (body,)
    marked = body.replace(b"\n", b"\n" + prefix)
    if body.endswith(b"\n"):
        return prefix, memoryview(marked)[: -len(prefix)]
    return prefix, marked


def matching(body: bytes, words: Iterable[bytes]) -> bytes:
    """The lines that hold one of the words."""
    return b"".join(line for line in body.splitlines(keepends=True) if any(word in line for word in words))
