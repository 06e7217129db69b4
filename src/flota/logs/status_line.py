"""One line below the output on a terminal. It is erased before anything else is written, and drawn again after it."""

from __future__ import annotations

import os

from flota.logs.follow import LogFollower
from flota.logs.progress_bars import ERASE_BELOW, WRAP_OFF, WRAP_ON

INTERVAL = 0.1  # seconds between two drawings, as of progress bars
USUAL_WIDTH = 80  # columns of a terminal that does not know its size


class StatusLine:
    """`text`: what to show; nothing if it is empty.

    The cursor stays in the first column of the line. So the line can be erased from there on, even if the terminal has
    become narrower and has wrapped it.
    """

    def __init__(self, follower: LogFollower) -> None:
        self.text = ""
        self._follower, self._writer = follower, follower.writer
        self._shown = ""
        self._next = 0.0  # when it may be drawn again
        self._writer.before_write = self.erase

    def erase(self) -> None:
        if self._shown:
            self._shown = ""
            self._writer.write(b"\r" + ERASE_BELOW)
            self._writer.at_line_start = True

    def refresh(self, now: float) -> None:
        """Show the text, if it is not on the screen yet."""
        if not self.text:
            self.erase()
            return
        text = self._fitting()
        if text == self._shown or now < self._next or not self._has_room():
            return
        self._next = now + INTERVAL
        erase, self._shown = ERASE_BELOW if self._shown else b"", ""
        self._writer.write(erase + WRAP_OFF + text.encode() + WRAP_ON + b"\r")
        self._shown, self._writer.at_line_start = text, True

    def until(self, wait: float | None, now: float) -> float | None:
        """How long the loop may wait before the line has to be drawn again: at most `wait` seconds."""
        if not self.text or self._shown or not self._has_room():
            return wait
        left = max(0.0, self._next - now)
        return left if wait is None else min(wait, left)

    def _has_room(self) -> bool:
        """Whether the terminal is ready, has no unfinished line or progress bar at its end, and belongs to this job."""
        writer = self._writer
        if writer.pending or writer.closed or not self._follower.at_line_start:
            return False
        try:
            return os.tcgetpgrp(writer.fd) == os.getpgrp()  # otherwise a shell has it, and flota is in the background
        except OSError:
            return True  # it is not the terminal that controls this process

    def _fitting(self) -> str:
        try:
            columns = os.get_terminal_size(self._writer.fd).columns or USUAL_WIDTH
        except OSError:
            columns = USUAL_WIDTH
        return f" {self.text}"[: max(1, columns - 1)]  # the cursor is on the space
