"""Shows logs of several ranks to their present end, merged by time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, zip_longest
from math import floor
from typing import BinaryIO

from flota.logs.follow import prefixed, split_lines
from flota.logs.log_parts import MOST_READ, LogPart
from flota.logs.log_spans import BEGINNING, Place, Span
from flota.logs.merge_lines import Speaker, as_json, fold, folded_prefix, grep

FOLDED_AT_ONCE, LEAST_READ = 8 << 20, 16 << 10  # bytes of all logs, and of each
Read = Callable[[int, int, int], bytes]  # an inode, an offset and the most bytes to read


class RankLog:
    """One log of a rank. `place`: what is to be shown next."""

    def __init__(self, speaker: Speaker, name: str, read: Read, parts: tuple[LogPart, ...], start: Place) -> None:
        self.speaker = speaker
        self.name = name
        self.read = read
        self.parts = parts
        self.place = start
        self.spans: list[Span] = []
        self.partial = b""  # the beginning of a line

    def advance(self, limit: int) -> tuple[bytes, bool]:
        """The next bytes, and whether some before them are gone. A file that was rotated is read to its end first."""
        inodes = [part.inode for part in self.parts]
        gone = self.place[0] not in (0, *inodes)
        if self.place[0] not in inodes and self.parts:
            self.place = self.parts[0].inode, 0
        for part in self.parts[inodes.index(self.place[0]) if self.parts else 0 :]:
            if part.inode != self.place[0] or self.place[1] > part.size:  # the next file, or one that was truncated
                self.place = part.inode, 0
            if part.size > self.place[1]:
                data = self.read(part.inode, self.place[1], min(limit, part.size - self.place[1]))
                self.place = part.inode, self.place[1] + len(data)
                if data:
                    return data, gone
        return b"", gone


class LinePrinter:
    """Writes lines of ranks, with a prefix if there are several of them; those of a single log byte for byte."""

    def __init__(
        self,
        out: BinaryIO,
        *,
        several: bool,
        coloured: bool = False,
        folds: bool = False,
        pattern: re.Pattern[bytes] | None = None,
        json: bool = False,
    ) -> None:
        self.folds = folds and several and not json
        self._out = out
        self._several = several
        self._coloured = coloured
        self._pattern = pattern
        self._json = json
        self._prefixes: dict[tuple[Speaker, ...], bytes] = {}

    def show(self, batch: Sequence[tuple[RankLog, bytes]], time: float | None = None, *, last: bool = False) -> None:
        """Output of several logs in the same moment. `last`: unfinished lines end here."""
        if not (self._several or self._pattern or self._json):
            for _, data in batch:
                self._out.write(data)
            return
        bodies = [(log.speaker, body) for log, data in batch if (body := self._whole_lines(log, data, last=last))]
        if self._json:
            for speaker, body in bodies:
                self._out.write(as_json(body, speaker, time))
        elif self.folds and len(bodies) > 1:
            for who, body in fold([body for _, body in bodies]):
                self._write(tuple(bodies[number][0] for number in who), body)
        else:
            for speaker, body in bodies:
                self._write((speaker,), body)

    def flush(self) -> None:
        self._out.flush()

    def _whole_lines(self, log: RankLog, data: bytes, *, last: bool) -> bytes:
        body, log.partial = split_lines(log.partial + data if log.partial else data, last=last)
        return grep(body, self._pattern) if self._pattern else body

    def _write(self, speakers: tuple[Speaker, ...], body: bytes) -> None:
        if not self._several:
            self._out.write(body)
            return
        if speakers not in self._prefixes:
            alone = len(speakers) == 1
            self._prefixes[speakers] = speakers[0].prefix(coloured=self._coloured) if alone else folded_prefix(speakers)
        for piece in prefixed(body, self._prefixes[speakers]):
            self._out.write(piece)


def show_spans(logs: Sequence[RankLog], printer: LinePrinter, since: float = 0.0) -> None:
    """Show the spans of all logs in order of time; those of one second belong to one moment.

    Marks are made at whole seconds: a moment is from half a second before to half a second after.
    """
    limit = max(LEAST_READ, FOLDED_AT_ONCE // (len(logs) or 1)) if printer.folds else MOST_READ
    order = [
        (floor(span.time + 0.5), number, span)
        for number, log in enumerate(logs)
        for span in log.spans
        if span.time >= since or not span.is_known
    ]
    order.sort(key=lambda one: one[:2])
    for _, moment in groupby(order, key=lambda one: one[0]):
        chunks = [
            _read_spans(logs[number], [span for _, _, span in own], limit)
            for number, own in groupby(moment, key=lambda one: one[1])
        ]
        for batch in zip_longest(*chunks) if printer.folds else ((one,) for own in chunks for one in own):
            found = [one for one in batch if one]
            printer.show([(log, data) for log, data, _ in found], found[0][2])
    for log in logs:
        if log.spans:
            log.place = log.spans[-1].inode, log.spans[-1].end
        elif log.place == BEGINNING and log.parts:
            log.place = log.parts[-1].inode, log.parts[-1].size


def _read_spans(log: RankLog, spans: list[Span], limit: int) -> Iterator[tuple[RankLog, bytes, float | None]]:
    for span in spans:
        offset = span.begin
        while offset < span.end and (data := log.read(span.inode, offset, min(limit, span.end - offset))):
            offset += len(data)
            yield log, data, span.time if span.is_known else None
