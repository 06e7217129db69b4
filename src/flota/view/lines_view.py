"""A widget that draws lines itself, and redraws only what has changed: few bytes for a slow connection."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from flota.view.text import ACCENT, BAD, BOLD, CHOSEN, DIM, GOOD, PLAIN, WARN, Glyphs, Line, fit

STYLES = {
    PLAIN: Style(),
    DIM: Style(dim=True),
    BOLD: Style(bold=True),
    GOOD: Style(color="green"),
    WARN: Style(color="yellow"),
    BAD: Style(color="red", bold=True),
    ACCENT: Style(color="cyan"),
    CHOSEN: Style(reverse=True),
    **{
        f"heat{number}": Style(color=f"color({color})")
        for number, color in enumerate((65, 107, 143, 179, 173, 167, 160))
    },
}


class LinesView(Widget):
    """Draws the lines of `draw`. `show` says how many there are, and redraws those that have changed."""

    DEFAULT_CSS = """
    LinesView { width: 1fr; height: 1fr; background: ansi_default; color: ansi_default; }
    """
    glyphs = Glyphs()
    colours = True

    def __init__(self, **options: str) -> None:
        super().__init__(**options)  # type: ignore[arg-type]  # ids only
        self._drawn: list[Strip] = []

    def draw(self, y: int, width: int) -> Line:
        """The line at this row of the widget."""
        raise NotImplementedError

    def show(self) -> None:
        before = self._drawn
        self._drawn = [self._strip(y) for y in range(self.size.height)]
        if len(before) != len(self._drawn):
            self.refresh()
            return
        for y, (old, new) in enumerate(zip(before, self._drawn, strict=True)):
            if old != new:
                self.refresh(Region(0, y, self.size.width, 1))

    def on_resize(self) -> None:
        self._drawn = []
        self.show()

    def render_line(self, y: int) -> Strip:
        return self._drawn[y] if y < len(self._drawn) else self._strip(y)

    def _strip(self, y: int) -> Strip:
        width = self.size.width
        line = [(text, PLAIN if text.isspace() and style != CHOSEN else style) for text, style in self.draw(y, width)]
        alike = groupby(fit(line, width), key=lambda piece: piece[1])  # fewer escape sequences
        strip = Strip([Segment("".join(text for text, _ in group), STYLES[style]) for style, group in alike])
        return strip.adjust_cell_length(width)  # letters of some languages are two columns wide


class TextLines(LinesView, can_focus=True):
    """Lines of text that can be scrolled. While the end is shown, it stays shown when lines are added."""

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self.title = ""
        self.lines: Sequence[str] = ()
        self._top: int | None = 0  # None: the end

    def set_text(self, title: str, lines: Sequence[str], *, at_end: bool = False) -> None:
        self.title, self.lines, self._top = title, lines, None if at_end else 0
        self.show()

    @property
    def top(self) -> int:
        last = max(0, len(self.lines) - self._room)
        return last if self._top is None else min(self._top, last)

    @property
    def _room(self) -> int:
        return max(1, self.size.height - 1)

    def scroll_text(self, lines: int) -> None:
        last = max(0, len(self.lines) - self._room)
        top = max(0, min(self.top + lines, last))
        self._top = None if self._top is None and top == last else top
        self.show()

    def draw(self, y: int, width: int) -> Line:
        if y == 0:
            rule = self.glyphs.left
            last = min(len(self.lines), self.top + self._room)
            where = f" {self.top + 1}-{last} of {len(self.lines)} " if len(self.lines) > self._room else ""
            room = max(0, width - len(self.title) - len(where) - 6)
            return [(rule * 2, DIM), (f" {self.title} ", BOLD), (f"{rule * room}{where}{rule * 2}", DIM)]
        number = self.top + y - 1
        return [(f" {self.lines[number]}", PLAIN)] if number < len(self.lines) else []
