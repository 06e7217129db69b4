"""The words and bars of a view: lines of styled pieces that fit a width. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from flota.control.status import DONE, ENDED, FAILED, RESTARTING, RUNNING, JobStatus
from flota.humanize import bytes_in_words, clock_in_words, noun
from flota.job.printable import printable
from flota.job.report import NO_STEP
from flota.job.roles import TRAINER
from flota.view.model import NO_ANSWER, SILENT, JobModel, RankRow, allot, rounds_of

Piece = tuple[str, str]  # a text and the name of its style
Line = list[Piece]

PLAIN, DIM, BOLD, GOOD, WARN, BAD, ACCENT, CHOSEN = "", "dim", "bold", "good", "warn", "bad", "accent", "chosen"
STATE_STYLES = {RUNNING: GOOD, DONE: DIM, FAILED: BAD, NO_ANSWER: BAD, SILENT: WARN, RESTARTING: WARN, ENDED: BOLD}
SLOW, VERY_SLOW = 1.15, 1.5  # times the median step time
SPARKLINE = 24  # columns
WIDE = 110  # columns from which lines have more details


class Glyphs:
    """Of a terminal that shows Unicode."""

    parts = "╸━"  # of one column of a bar
    done, left, cut, moved = "━", "─", "✗", "┃"
    sparks = "▁▂▃▄▅▆▇█"
    dot, chosen = "·", "▶"
    cell, shades, mark = "■", "░▒█", "◆"  # of a heat map: with and without colours, the chosen one


class AsciiGlyphs(Glyphs):
    parts = "="
    done, left, cut, moved = "=", "-", "X", "|"
    sparks = "_.-=+*#@"
    dot, chosen = "-", ">"
    cell, shades, mark = "#", ".+#", "@"


def width_of(line: Iterable[Piece]) -> int:
    return sum(len(text) for text, _ in line)


def fit(line: Line, width: int, right: Sequence[Piece] = ()) -> Line:
    """A line of exactly this width, with pieces at its right end if there is room for them."""
    own: Line = []
    room = width
    for text, style in line:
        if room > 0:
            own.append((text[:room], style))
            room -= len(text[:room])
    if right and width_of(right) < room:
        return [*own, (" " * (room - width_of(right)), PLAIN), *right]
    return [*own, (" " * room, PLAIN)]


def join(parts: Iterable[Line], separator: str) -> Line:
    line: Line = []
    for part in parts:
        line += [*([(separator, DIM)] if line and part else []), *part]
    return line


def bar(share: float, width: int, glyphs: Glyphs) -> str:
    """A bar of this share of the width, as exact as the glyphs allow."""
    whole, part = divmod(round(max(0.0, min(1.0, share)) * width * len(glyphs.parts)), len(glyphs.parts))
    return glyphs.parts[-1] * whole + (glyphs.parts[part - 1] if part else "")


def sparkline(values: Sequence[float], width: int, glyphs: Glyphs) -> str:
    """The last values, from the least to the greatest of them."""
    shown = [value for value in values if abs(value) < float("inf")][-width:]  # a loss may be infinite, or not a number
    low, high = (min(shown), max(shown)) if shown else (0.0, 0.0)
    if high <= low:
        return ""
    steps = len(glyphs.sparks) - 1
    return "".join(glyphs.sparks[round((value - low) / (high - low) * steps)] for value in shown)


def seconds_in_words(seconds: float) -> str:
    """A step's time in at most seven columns."""
    if seconds <= 0:
        return ""
    if seconds < 0.01:
        return f"{seconds * 1000:.2f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 100 else clock_in_words(seconds)


def number_in_words(value: float) -> str:
    return f"{value:,.0f}" if abs(value) < 1e9 and value == round(value) else f"{value:.4g}"


def rate_in_words(rate: float) -> str:
    if rate <= 0:
        return ""
    return f"{rate:.3f}" if rate < 1 else f"{rate:.1f}" if rate < 1000 else f"{rate:,.0f}"


def job_line(model: JobModel, width: int, glyphs: Glyphs) -> Line:
    """What the job is, and what it does."""
    job = model.job
    if job is None:
        return fit([(" waiting for an answer", DIM)], width)
    counts = model.counts
    if len(counts) > 1:
        ranks = ", ".join(f"{count} {state}" for state, count in counts.items())
    else:
        ranks = f"{job.world_size} {noun('rank', job.world_size)}"
    nodes = f" on {len(job.nodes)} nodes" if len(job.nodes) > 1 else f" on {job.nodes[0].host}" if job.nodes else ""
    if job.spares:
        nodes += f" and {len(job.spares)} {noun('spare', len(job.spares))}"
    limit = f" of {job.restart_limit}" if job.restart_limit else ""
    facts: list[Line] = [
        [(printable(f"{ranks}{nodes}"), PLAIN)],
        [(f"restarts {job.attempt}{limit}", WARN if job.attempt else PLAIN)] if limit or job.attempt else [],
        [(clock_in_words(max(0.0, job.now - job.began)), PLAIN)],
    ]
    head = [(f" {printable(job.job_id)} ", BOLD), (f" {job.state}", STATE_STYLES.get(job.state, WARN)), ("  ", PLAIN)]
    log_dir: Line = [(printable(job.log_dir.removeprefix(f"{job.directory}/")) + "/ ", DIM)]
    return fit([*head, *join(facts, f" {glyphs.dot} ")], width, log_dir)


def progress_line(model: JobModel, width: int, glyphs: Glyphs) -> Line:
    """The step, how fast it grows, and the numbers that the script reports."""
    progress = model.progress
    if progress.step == NO_STEP:
        words = "steps are not known: call flota.heartbeat(step) in the script" if model.rows else ""
        return fit([(f" {words}", DIM)], width)
    of = f"/{progress.total:,}" if progress.total else ""
    facts: list[Line] = [
        [(f"{rate_in_words(progress.rate)} it/s", PLAIN), *_history(model, "", width, glyphs)] if progress.rate else [],
        [("ETA ", DIM), (clock_in_words(progress.left), PLAIN)] if progress.left is not None else [],
        *(
            [(f"{printable(name)} ", DIM), (number_in_words(value), PLAIN), *_history(model, name, width, glyphs)]
            for name, value in progress.numbers
        ),
    ]
    line: Line = [(" step ", DIM), (f"{progress.step:,}{of}", BOLD), ("  ", PLAIN)]
    text = join(facts, "  ")
    room = min(40, width - width_of(line) - width_of(text) - 9)
    if progress.total and room >= 8:
        share = min(1.0, progress.step / progress.total)
        filled = round(share * room)
        line += [(glyphs.done * filled, GOOD), (glyphs.left * (room - filled), DIM), (f" {share:4.0%}  ", PLAIN)]
    return fit([*line, *text], width)


def _history(model: JobModel, name: str, width: int, glyphs: Glyphs) -> Line:
    drawn = sparkline(list(model.history.get(name, ())), SPARKLINE, glyphs) if width >= WIDE else ""
    return [(f" {drawn}", ACCENT)] if drawn else []


def rounds_line(job: JobStatus, width: int, glyphs: Glyphs) -> Line:
    """The rounds as a timeline, and why the last one before this ended."""
    spans = rounds_of(job)
    room = min(60, max(10, width // 3))
    line: Line = [(" time ", DIM)]
    for span, columns in zip(spans[-room:], allot((span.share for span in spans), room), strict=True):
        end = [] if span.end is None else [(glyphs.cut, BAD) if span.end.counted else (glyphs.moved, ACCENT)]
        style = GOOD if span.end is None and job.state == RUNNING else DIM
        line += [(glyphs.done * (columns - len(end)), style), *end]
    if job.restarts:
        last = job.restarts[-1]
        since = clock_in_words(max(0.0, last.at - job.began))
        line += [("  ", PLAIN), (f"{printable(last.reason)} at {since}", PLAIN)]
    return fit([*line, (f"  round {job.round}", DIM)], width)


def restart_lines(job: JobStatus) -> list[str]:
    """All known rounds and why they ended, the last first."""
    spans = rounds_of(job)
    whole, begin = max(job.now - job.began, 0.0), 0.0
    lines = []
    for span in spans:
        end = begin + span.share * whole
        lost = f" (lost: {', '.join(span.end.lost)})" if span.end and span.end.lost else ""
        why = f"ended: {span.end.reason}{lost}" if span.end else job.state
        counted = " [not counted]" if span.end and not span.end.counted else ""
        times = f"{clock_in_words(begin):>7} to {clock_in_words(end) if span.end else 'now':<7}"
        lines.append(printable(f"round {span.round:<4} {times}  {why}{counted}"))
        begin = end
    return lines[::-1]


class Column:
    """One column of the table: its title, its width, and what it shows of a rank."""

    def __init__(self, title: str, width: int, cell: Callable[[RankRow], Piece], *, left: bool = False) -> None:
        self.title, self.width, self.cell, self.left = title, width, cell, left

    def align(self, text: str) -> str:
        text = text[: self.width]
        return text.ljust(self.width) if self.left else text.rjust(self.width)


WIDEST_BAR, LEAST_BAR, WIDEST_HOST, WIDEST_DEVICES = 24, 8, 24, 16


class Layout:
    """The columns of the table that fit a width. Those that do not fit are left out, the least important first."""

    def __init__(self, rows: Sequence[RankRow], width: int, glyphs: Glyphs) -> None:
        host = min(max((len(row.host) for row in rows), default=4), WIDEST_HOST if width >= WIDE else 10)
        devices = max((len(",".join(row.devices)) for row in rows), default=0)
        role = max((len(row.role) + 5 for row in rows if row.role != TRAINER), default=5)
        self._bar = Column("", LEAST_BAR, lambda row: self._draw_bar(row, glyphs), left=True)
        of_host = Column("HOST", max(4, host), lambda row: (row.host, PLAIN), left=True)
        rate = Column("IT/S", 6, lambda row: (rate_in_words(row.rate), PLAIN))
        memory = Column("MEMORY", 8, lambda row: (bytes_in_words(row.memory) if row.memory else "", PLAIN))
        device = Column(
            "DEVICE", min(max(6, devices), WIDEST_DEVICES), lambda row: (",".join(row.devices), DIM), left=True
        )
        use = Column("USE%", 5, lambda row: ("" if row.device_use is None else f"{row.device_use:.0f}", PLAIN))
        is_used = any(row.device_use is not None for row in rows)
        self.columns = [
            Column("RANK", role, lambda row: (f"{row.role} {row.rank}".removeprefix(f"{TRAINER} "), BOLD)),
            of_host,
            Column("STATE", 11, state_in_words, left=True),
            Column("STEP", 7, lambda row: ("" if row.step == NO_STEP else str(row.step), PLAIN)),
            Column("STEP TIME", 9, lambda row: (seconds_in_words(row.step_seconds), step_style(row))),
            *(self._bar, rate),
            Column("CPU%", 5, lambda row: ("" if row.cpu is None else f"{row.cpu:.0f}", PLAIN)),
            *(memory, device, use),
        ]
        for column in (device, memory, rate, use, self._bar, of_host):
            if self._width > width or (column is device and not devices) or (column is use and not is_used):
                self.columns.remove(column)
        self._bar.width = min(WIDEST_BAR, LEAST_BAR + max(0, width - self._width))

    @property
    def _width(self) -> int:
        return 1 + sum(column.width + 1 for column in self.columns)

    def _draw_bar(self, row: RankRow, glyphs: Glyphs) -> Piece:
        """Half of it is the median."""
        return (bar(row.ratio / 2, self._bar.width, glyphs) if row.ratio else ""), step_style(row) or GOOD

    def head(self, about: str) -> Line:
        """The titles. `about` is above the bars."""
        titles = (column.align(about if column is self._bar else column.title) for column in self.columns)
        return [(f" {' '.join(titles)}", DIM)]

    def row(self, row: RankRow, width: int, glyphs: Glyphs, *, chosen: bool) -> Line:
        line: Line = [(glyphs.chosen if chosen else " ", ACCENT)]
        for column in self.columns:
            text, style = column.cell(row)
            line += [(column.align(printable(text)), style), (" ", PLAIN)]
        return fit(line, width)


def step_style(row: RankRow) -> str:
    if row.slow or row.ratio >= VERY_SLOW:
        return BAD
    return WARN if row.ratio >= SLOW else PLAIN


def state_in_words(row: RankRow) -> Piece:
    style = PLAIN if row.state == RUNNING else STATE_STYLES.get(row.state, PLAIN)  # only what is unusual is coloured
    if row.state == FAILED and row.exit_code is not None:
        return (f"exit {row.exit_code}" if row.exit_code >= 0 else f"signal {-row.exit_code}"), style
    if row.state == SILENT and row.heartbeat:
        return f"{SILENT} {clock_in_words(row.heartbeat)}", style
    return (f"slow {row.slow:.1f}x", BAD) if row.slow and row.state == RUNNING else (row.state, style)
