"""A terminal for tests: what a person sees after the bytes that a program wrote."""

from __future__ import annotations

import re

TOKEN = re.compile(r"\x1b\[(?P<params>[0-9;?]*)(?P<final>[A-Za-z])|(?P<other>.)", re.DOTALL)


class Terminal:
    """Text in rows, with the escape sequences that flota uses; any other one fails the test."""

    def __init__(self, height: int = 24, width: int = 80) -> None:
        self.height, self.width = height, width
        self.scrolled_off: list[str] = []
        self._rows: list[list[str]] = [[] for _ in range(height)]
        self._row = self._column = 0
        self._wraps = True

    def feed(self, data: bytes) -> None:
        for match in TOKEN.finditer(data.decode()):
            if match["other"]:
                self._print(match["other"])
            else:
                self._control(match["params"], match["final"])

    @property
    def screen(self) -> list[str]:
        """The rows down to the cursor or the last text."""
        rows = ["".join(row).rstrip() for row in self._rows]
        last = max([number for number, row in enumerate(rows) if row] + [self._row])
        return rows[: last + 1]

    @property
    def text(self) -> list[str]:
        """All rows that have text, also those that have scrolled off the screen."""
        return [row for row in self.scrolled_off + self.screen if row]

    def _print(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._column = 0
            self._down()
        else:
            assert character >= " ", f"the terminal was sent {character!r}"
            if self._column == self.width and self._wraps:
                self._column = 0
                self._down()
            column = min(self._column, self.width - 1)
            row = self._rows[self._row]
            row.extend(" " * (column + 1 - len(row)))
            row[column] = character
            self._column = column + 1

    def _down(self) -> None:
        self._row += 1
        if self._row == self.height:
            self.scrolled_off.append("".join(self._rows.pop(0)).rstrip())
            self._rows.append([])
            self._row -= 1

    def _control(self, params: str, final: str) -> None:
        if final == "A":
            self._row = max(0, self._row - int(params or 1))
        elif final == "J" and not params:
            del self._rows[self._row][self._column :]
            self._rows[self._row + 1 :] = [[] for _ in self._rows[self._row + 1 :]]
        elif params == "?7" and final in "hl":
            self._wraps = final == "h"
        else:
            assert final == "m", f"the terminal was sent the control sequence {params}{final}"
