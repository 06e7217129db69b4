r"""Progress bars when several ranks are shown. A bar is a line that is not ended: each `\r` starts it again.

On a terminal each rank's bar has its own row below the lines. Elsewhere changed bars become lines, once per second.
Bytes that move the cursor are dropped from bars, because they assume a screen for one program. Pure.
"""

from __future__ import annotations

from _collections_abc import Iterable

TERMINAL_INTERVAL = 0.1  # seconds from a bar's change to its next row
LINE_INTERVAL = 1.0  # seconds from a bar's change to its next line where there is no terminal
LONGEST_BAR = 1000  # bytes; a bar is drawn again and again, so a longer one is cut
UP = b"\x1b[A"
ERASE_BELOW, WRAP_OFF, WRAP_ON, PLAIN = b"\x1b[J", b"\x1b[?7l", b"\x1b[?7h", b"\x1b[0m"
BEFORE_FINAL_BYTE = bytes(range(0x20, 0x40))  # of a control sequence: parameters


def split_bars(data: bytes) -> tuple[bytes, bytes]:
    r"""Split output that contains `\r` into whole lines and an unfinished one. Of a bar only the last state is kept."""
    line, *others = data.split(b"\n")
    lines = []
    for following in others:
        if b"\r" in line and line.endswith(UP):
            # tqdm draws a nested bar with `\n\r`, the bar and UP. The next `\n` only returns to that row.
            line = _shortened(line.removesuffix(UP)) + following
        else:
            lines.append(last_state(line) + b"\n")
            line = following
    return b"".join(lines), _shortened(line)


def last_state(line: bytes) -> bytes:
    r"""What the line shows: the text after its last `\r`, or before it if no text follows."""
    if b"\r" not in line:
        return line
    states = line.split(b"\r")
    return _printable(states[_last_shown(states)]).rstrip(b" ")


def _shortened(line: bytes) -> bytes:
    """Drop the states that were replaced, so a bar that is redrawn for hours needs no more memory than two states."""
    if b"\r" not in line:
        return line
    states = line.split(b"\r")
    shown = _last_shown(states)
    after = b"\r" + states[-1] if shown < len(states) - 1 else b""
    return b"\r" + states[shown] + after


def _last_shown(states: list[bytes]) -> int:
    for number in range(len(states) - 1, 0, -1):
        if states[number] and _printable(states[number]):
            return number
    return 0


def _printable(state: bytes) -> bytes:
    """The text and its colours, without bytes that move the cursor or erase the row."""
    first, *escapes = state.replace(b"\b", b"").split(b"\x1b")
    return first + b"".join(map(_after_escape, escapes)) if escapes else first


def _after_escape(part: bytes) -> bytes:
    if not part.startswith(b"["):
        return part[1:]
    after = part[1:].lstrip(BEFORE_FINAL_BYTE)
    return b"\x1b" + part if after.startswith(b"m") else after[1:]


class ProgressBars:
    """The unfinished bars of all ranks, and the bytes that show them."""

    def __init__(self, *, terminal: bool) -> None:
        self.deadline: float | None = None  # when changed bars are shown
        self._terminal = terminal
        self._bars: dict[int, bytes] = {}
        self._changed: set[int] = set()
        self._rows = 0  # that bars occupy on the terminal; the cursor is in the last one

    @property
    def any(self) -> bool:
        return bool(self._bars)

    def update(self, number: int, prefix: bytes, line: bytes, now: float) -> None:
        """Set the bar of log `number` from its unfinished line. Without a bar there, the log has none."""
        state = last_state(line)[:LONGEST_BAR] if b"\r" in line else b""
        bar = prefix + state + (PLAIN if b"\x1b" in state else b"") if state.strip() else b""
        if bar == self._bars.get(number, b""):
            return
        if bar:
            self._bars[number] = bar
            self._changed.add(number)
        else:
            del self._bars[number]
            self._changed.discard(number)
        if self.deadline is None:
            self.deadline = now + (TERMINAL_INTERVAL if self._terminal else LINE_INTERVAL)

    def draw(self, height: int, lines: Iterable[bytes | memoryview] = ()) -> tuple[bytes | memoryview, ...]:
        """All bars of a terminal with `height` rows, below these lines; the changed bars as lines elsewhere."""
        self.deadline = None
        changed, self._changed = sorted(self._changed), set()
        if not self._terminal:
            return *lines, b"".join(self._bars[number] + b"\n" for number in changed)
        before = self._erased()
        rows = [self._bars[number] for number in sorted(self._bars)]
        room = max(height - 1, 1)  # a row that has scrolled off the screen cannot be drawn again
        if len(rows) > room:
            rows[room - 1 :] = [b"... %d more progress bars" % (len(rows) - room + 1)]
        self._rows = len(rows)
        return before, *lines, WRAP_OFF + b"\n".join(rows) + WRAP_ON if rows else b""

    def show_lines(self, height: int, lines: Iterable[bytes | memoryview]) -> Iterable[bytes | memoryview]:
        """Whole lines, above the bars if these are on the screen."""
        return self.draw(height, lines) if self._rows else lines

    def erase(self, now: float) -> bytes:
        """Remove the bars from the terminal. They come back at the deadline, below what was printed in between."""
        if self._rows:
            self.deadline = now + TERMINAL_INTERVAL
        return self._erased()

    def _erased(self) -> bytes:
        rows, self._rows = self._rows, 0
        up = b"\x1b[%dA" % (rows - 1) if rows > 1 else b""
        return b"\r" + up + ERASE_BELOW if rows else b""
