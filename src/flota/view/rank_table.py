"""All ranks: as a table, or as a heat map with a cell per rank."""

from __future__ import annotations

from collections.abc import Sequence

from flota.control.status import RUNNING
from flota.job.printable import printable
from flota.view.lines_view import LinesView
from flota.view.model import NO_ANSWER, SILENT, Key, RankRow
from flota.view.text import BOLD, CHOSEN, DIM, PLAIN, SLOW, STATE_STYLES, VERY_SLOW, Layout, Line, seconds_in_words

HEAT = 7  # colours
COLDEST, HOTTEST = 1.0, 2.0  # times the median step time
CELLS = ((8, 2), (16, 2), (32, 2), (64, 2), (64, 1), (128, 1))  # of one line: their number and width
LABEL = 7  # columns before them
LETTERS = {SILENT: "S", NO_ANSWER: "?"}


class RankTable(LinesView, can_focus=True):
    """Only the lines on the screen are drawn, so thousands of ranks cost as much as a few."""

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self.rows: Sequence[RankRow] = ()
        self.is_map = False
        self.order = ""
        self.search = ""
        self._cursor = 0
        self._top = 0
        self._layout = Layout((), 0, self.glyphs)

    @property
    def chosen(self) -> RankRow | None:
        return self.rows[self._cursor] if self.rows else None

    def set_rows(self, rows: Sequence[RankRow]) -> None:
        """The chosen rank stays chosen, wherever it is now."""
        before = self.chosen
        self.rows = rows
        self._cursor = _find(rows, before.key) if before else 0
        self.show()

    def move(self, lines: int) -> None:
        if self.rows:
            self._cursor = max(0, min(self._cursor + lines, len(self.rows) - 1))
            self.show()

    @property
    def page(self) -> int:
        """Ranks on one screen."""
        return max(1, self.size.height - 1) * (self._cells[0] if self.is_map else 1)

    @property
    def line_step(self) -> int:
        """Ranks between one line and the next."""
        return self._cells[0] if self.is_map else 1

    def show(self) -> None:
        room = max(1, self.size.height - (2 if self.is_map else 1))
        line = self._cursor // self.line_step
        lines = -(-len(self.rows) // self.line_step)
        self._top = max(0, min(self._top, lines - room, line), line - room + 1)
        self._layout = Layout(self.rows, self.size.width, self.glyphs)
        super().show()

    def draw(self, y: int, width: int) -> Line:
        if y == 0:
            return self._head()
        if self.is_map:
            return self._legend() if y == self.size.height - 1 else self._map_line(self._top + y - 1)
        number = self._top + y - 1
        if number >= len(self.rows):
            return []
        line = self._layout.row(self.rows[number], width, self.glyphs, chosen=number == self._cursor)
        return [(text, CHOSEN) for text, _ in line] if number == self._cursor else line

    def _head(self) -> Line:
        facts = [
            f"{self._cursor + 1 if self.rows else 0} of {len(self.rows)}",
            *[f"/{self.search}"] * bool(self.search),
        ]
        about = " ".join([*facts, self.order])
        row = self.chosen
        if not self.is_map:
            return self._layout.head(about)
        if row is None:
            return [(f" {about}", DIM)]
        facts = [row.host, row.state, *([f"step {row.step}", seconds_in_words(row.step_seconds)] if row.ratio else [])]
        return [(f" rank {row.rank} ", BOLD), (printable(" ".join(facts)), PLAIN), (f"  {about}", DIM)]

    @property
    def _cells(self) -> tuple[int, int]:
        """Cells of one line and their width: wide ones if all lines fit, otherwise as many as fit into a line."""
        width, room = self.size.width - LABEL, max(1, self.size.height - 2)
        fitting = [(count, wide) for count, wide in CELLS if count * wide <= width] or [CELLS[0]]
        enough = [(count, wide) for count, wide in fitting if count * room >= len(self.rows)]
        return enough[0] if enough else max(fitting)

    def _map_line(self, line: int) -> Line:
        count, wide = self._cells
        rows = self.rows[line * count : (line + 1) * count]
        drawn: Line = [(f"{rows[0].rank:>{LABEL - 2}}  ", DIM)] if rows else []
        for number, row in enumerate(rows, line * count):
            cell = (self.glyphs.mark, BOLD) if number == self._cursor else self._cell(row)
            drawn += [cell, (" " * (wide - 1), PLAIN)]
        return drawn

    def _cell(self, row: RankRow) -> tuple[str, str]:
        """A letter for a state; for a running rank its step time as a colour or a shade."""
        if row.state != RUNNING:
            return LETTERS.get(row.state, row.state[:1].upper()), STATE_STYLES.get(row.state, PLAIN)
        if not row.ratio:
            return self.glyphs.dot, PLAIN
        return self._heat(max(row.ratio, row.slow))

    def _heat(self, ratio: float) -> tuple[str, str]:
        shade = self.glyphs.shades[(ratio >= SLOW) + (ratio >= VERY_SLOW)]
        heat = round((ratio - COLDEST) / (HOTTEST - COLDEST) * (HEAT - 1))
        return self.glyphs.cell if self.colours else shade, f"heat{max(0, min(heat, HEAT - 1))}"

    def _legend(self) -> Line:
        line: Line = [(" " * LABEL, PLAIN)]
        for ratio, words in ((COLDEST, "median"), (VERY_SLOW, f"{VERY_SLOW:g}x"), (HOTTEST, f"{HOTTEST:g}x or more")):
            line += [self._heat(ratio), (f" {words}  ", DIM)]
        states = sorted({row.state for row in self.rows} - {RUNNING})
        return [*line, *((f"{LETTERS.get(state, state[:1].upper())} {state}  ", DIM) for state in states)]


def _find(rows: Sequence[RankRow], key: Key) -> int:
    return next((number for number, row in enumerate(rows) if row.key == key), 0)
