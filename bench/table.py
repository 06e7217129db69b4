"""The table that a run prints, as text."""

from __future__ import annotations

from typing import NamedTuple

HEAD = ("what", "flota", "torchrun", "Paddle's launcher", "plain python or shell", "ratio", "limit", "met?")
NOT_MEASURED = "-"


class Row(NamedTuple):
    """One limit, and what was measured for it."""

    what: str
    flota: str
    ratio: str
    bar: str
    met: bool
    torchrun: str = NOT_MEASURED
    paddle: str = NOT_MEASURED
    plain: str = NOT_MEASURED

    def cells(self) -> tuple[str, ...]:
        met = "yes" if self.met else "NO"
        return (self.what, self.flota, self.torchrun, self.paddle, self.plain, self.ratio, self.bar, met)


def render(rows: list[Row]) -> str:
    """A Markdown table, so that the output can be pasted into documents."""
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    texts = [_line(line, widths) for line in lines]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([texts[0], f"|{rule}|", *texts[1:]])


def milliseconds(seconds: float | None) -> str:
    return NOT_MEASURED if seconds is None else f"{seconds * 1000:,.0f} ms"


def fraction(flota: float, peer: float) -> str:
    return f"1/{peer / flota:.1f} of torchrun"


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
