"""The live view of a job on a terminal: `flota top`, `flota --view`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.message import Message
from textual.widgets import Input

from flota.control.client import JobClient
from flota.errors import CannotAsk
from flota.job.printable import printable
from flota.view.asking import News, StatusThread
from flota.view.frame import JobHeader, KeyLine
from flota.view.lines_view import TextLines
from flota.view.log_pane import LogPane
from flota.view.model import BY_RANK, ORDERS, JobModel
from flota.view.rank_table import RankTable
from flota.view.text import AsciiGlyphs, Glyphs, restart_lines

QUESTION_TIME = 15.0  # seconds for all nodes to answer
STACKS_TIME = 60.0  # seconds
TALL, SMALL = 40, 16  # rows
WIDE, TABLE = 160, 100  # columns
MANY = 1 << 20  # pages
MOVES = {"up,k": (-1,), "down,j": (1,), "pageup": (0, -1), "pagedown": (0, 1), "home": (0, -MANY), "end": (0, MANY)}
MOVES |= {"left": (0, 0, -1), "right": (0, 0, 1)}  # lines, pages, cells of the map
ACTIONS = {
    "slash": "search",
    "o": "order",
    "h": "map",
    "l,enter": "log",
    "s": "stacks",
    "t": "rounds",
    "r": "restart",
    "d": "drain",
    "x": "stop",
    "q": "detach",
    "escape": "leave",
    "y": "agree",
    "question_mark": "help",
}
HELP = """\
  arrows, PgUp, PgDn   choose a rank, or scroll
  /                    search: a rank, a range such as 8-15, a part of a host
                       or of a state, slow; several words must all match
  o                    order by rank, or the slowest first
  h                    heat map of all ranks, or the table
  l, Enter             the log of the chosen rank on the whole screen
  s                    stacks: what each rank is waiting on
  t                    rounds and restarts with their causes
  r                    restart all workers
  d                    drain: let the node of the chosen rank leave the job
  x                    stop the job
  q, Ctrl-C            detach: leave the view; the job goes on
  Esc                  back; end the search"""
STACKS = "stacks"
RANKS, LOG, PAGE = "ranks", "log", "page"  # what the largest part of the screen shows


class Arrived(Message):
    """A thread has something to show."""

    def __init__(self, show: Callable[[], object]) -> None:
        super().__init__()
        self.show = show


class JobView(App[None]):
    """`command`: how flota is run, for stacks. `ascii_only`: the terminal cannot show other characters."""

    CSS = """
    Screen { background: ansi_default; color: ansi_default; overflow: hidden; }
    Container { background: ansi_default; overflow: hidden; }
    Input, Input:focus { height: 1; border: none; padding: 0 1; background: ansi_default; color: ansi_default; }
    Input { display: none; }
    Input>.input--cursor { text-style: reverse; background: ansi_default; color: ansi_default; }
    """
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    BINDINGS: ClassVar = [
        *(Binding(key, f"move({','.join(map(str, by))})") for key, by in MOVES.items()),
        *(Binding(key, action) for key, action in ACTIONS.items()),
        Binding("ctrl+c", "quit", priority=True),
    ]

    def __init__(self, job: JobClient, command: Sequence[str] = (), *, ascii_only: bool = False) -> None:
        super().__init__(ansi_color=True)
        self.model = JobModel()
        self._job, self._command = job, command
        self._status = StatusThread(job, lambda news: self.post_message(Arrived(lambda: self.take(news))))
        self._order = BY_RANK
        self._shows = RANKS
        glyphs = AsciiGlyphs() if ascii_only else Glyphs()
        self.header, self.footer = JobHeader(self.model), KeyLine()
        self.table, self.log_pane, self.page = RankTable(), LogPane(job), TextLines()
        self.body, self.search = Container(), Input(select_on_focus=False)
        for widget in (self.header, self.footer, self.table, self.log_pane, self.page):
            widget.glyphs, widget.colours = glyphs, not self.no_color

    def compose(self) -> ComposeResult:
        yield self.header
        with self.body:
            yield from (self.table, self.log_pane, self.page)
        yield from (self.search, self.footer)

    def on_mount(self) -> None:
        self._arrange()
        self._status.start()

    def on_unmount(self) -> None:
        self._status.stop()

    def on_arrived(self, message: Arrived) -> None:
        message.show()

    # What nodes answer.

    def take(self, news: News) -> None:
        if news.answer:
            self.model.update(news.answer, news.at)
        self.header.set_news(news)
        self._show_rows()
        if not news.ending:
            self.log_pane.follow_again()

    def _show_rows(self) -> None:
        self.table.search, self.table.order = self.search.value, self._order if self._order != BY_RANK else ""
        self.table.set_rows(self.model.shown(self.search.value, self._order))
        self._follow_chosen()

    def _follow_chosen(self) -> None:
        if row := self.table.chosen:
            self.log_pane.choose(row)

    # The screen.

    def _arrange(self) -> None:
        """Divide the screen. At 80x24 there are seven lines of the log; on a wide screen it is beside the table."""
        width, height = self.size
        beside = width >= WIDE and self._shows == RANKS
        self.body.styles.layout = "horizontal" if beside else "vertical"
        self.header.styles.height = self.header.height_for(height)
        small_map = self.table.is_map and height < TALL
        self.table.display = self._shows == RANKS
        self.page.display = self._shows == PAGE
        self.log_pane.display = self._shows == LOG or (self._shows == RANKS and not small_map and height >= SMALL)
        self.log_pane.styles.height = "1fr" if self._shows == LOG or beside else max(6, height // 3)
        self.table.styles.width = TABLE if beside else "1fr"
        self.footer.styles.height = 1
        shown = {RANKS: self.table, LOG: self.log_pane, PAGE: self.page}[self._shows]
        if not self.search.display and not self.footer.is_asking:
            self.screen.set_focus(shown)
        for widget in (self.header, self.footer):
            widget.show()

    def on_resize(self) -> None:
        self._arrange()

    def _go(self, shows: str) -> None:
        self._shows = shows
        self._arrange()

    def _open(self, title: str, lines: Sequence[str]) -> None:
        self.page.set_text(title, lines)
        self._go(PAGE)

    # Keys.

    def action_move(self, lines: int, pages: int = 0, cells: int = 0) -> None:
        if self._shows == RANKS:
            self.table.move(lines * self.table.line_step + pages * self.table.page + cells * self.table.is_map)
            self._follow_chosen()
        else:
            text = self.log_pane if self._shows == LOG else self.page
            text.scroll_text(lines + pages * max(1, text.size.height - 2))

    def action_search(self) -> None:
        self._go(RANKS)
        self.search.display = True
        self.screen.set_focus(self.search)

    def on_input_changed(self) -> None:
        self._show_rows()

    def on_input_submitted(self) -> None:
        self._end_search()

    def _end_search(self) -> None:
        self.search.display = False
        self.screen.set_focus(self.table)
        self._show_rows()

    def action_leave(self) -> None:
        if self._shows != RANKS:
            self._go(RANKS)
        else:
            self.search.value = ""
            self._end_search()

    def action_detach(self) -> None:
        if self._shows == RANKS:
            self.exit()
        else:
            self._go(RANKS)

    def action_order(self) -> None:
        self._order = ORDERS[(ORDERS.index(self._order) + 1) % len(ORDERS)]
        self._show_rows()

    def action_map(self) -> None:
        self.table.is_map = not self.table.is_map
        self._go(RANKS)
        self.table.show()

    def action_log(self) -> None:
        self._go(RANKS if self._shows == LOG else LOG)

    def action_help(self) -> None:
        self._open("keys", HELP.splitlines())

    def action_rounds(self) -> None:
        self._open("rounds", restart_lines(self.model.job) if self.model.job else [])

    def action_stacks(self) -> None:
        self._open(STACKS, ["reading the stacks of all ranks …"])
        self.run_worker(self._read_stacks, thread=True)

    def _read_stacks(self) -> None:
        """On this machine as `flota stack` does; from elsewhere, what each rank is waiting on."""
        try:
            if self._job.entry.pid and self.model.job:
                words = [*self._command, "stack", "--log_dir", self.model.job.log_dir]
                ran = subprocess.run(words, capture_output=True, text=True, timeout=STACKS_TIME, check=False)
                lines = [printable(line) for line in (ran.stdout or ran.stderr).splitlines()]
            else:
                lines = list(self._job.another().working_node().ask_job("positions", QUESTION_TIME))
        except CannotAsk as error:
            lines = [error.message]
        except (OSError, subprocess.SubprocessError) as error:
            lines = [str(error)]
        self.post_message(Arrived(lambda: self._show_stacks(lines)))

    def _show_stacks(self, lines: list[str]) -> None:
        if self.page.title == STACKS:  # and not another page meanwhile
            self.page.set_text(STACKS, lines)

    # What acts on the job is confirmed first.

    def action_restart(self) -> None:
        self._confirm("restart all workers?", lambda: self._job.another().working_node().act("restart"))

    def action_stop(self) -> None:
        self._confirm("stop the job?", lambda: self._job.another().working_node().act("stop"))

    def action_drain(self) -> None:
        if row := self.table.chosen:
            question = f"let node {row.seat} ({printable(row.host)}) leave the job?"
            self._confirm(question, lambda: self._job.another().client_of(row.seat).act("leave"))

    def _confirm(self, question: str, act: Callable[[], str]) -> None:
        def run() -> None:
            try:
                words = act()
            except CannotAsk as error:
                words = error.why
            self.post_message(Arrived(lambda: self.header.set_notice(words)))

        def decide(agreed: bool) -> None:  # noqa: FBT001  as it is called back
            self._arrange()
            if agreed:
                self.run_worker(run, thread=True)

        self.footer.ask(question, decide)

    def action_agree(self) -> None:
        """A key that was typed ahead is sent to the part of the screen which had the focus before the question."""
        self.footer.answer(agreed=True)
