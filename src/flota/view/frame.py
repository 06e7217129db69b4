"""What is around the ranks: the job above, the keys below, and questions to the user."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from flota.humanize import list_in_words
from flota.job.printable import printable
from flota.view.asking import News
from flota.view.lines_view import LinesView
from flota.view.model import JobModel
from flota.view.text import ACCENT, BAD, BOLD, DIM, PLAIN, WARN, Line, job_line, progress_line, rounds_line, width_of

NOTICE_TIME = 8.0  # seconds
FOOT = ("/ search", "l log", "s stacks", "h map", "r restart", "d drain", "q detach", "? help")
MORE = ("t rounds", "o order", "x stop")


class JobHeader(LinesView):
    """The job: its state, its progress, its rounds, and what is wrong."""

    def __init__(self, model: JobModel) -> None:
        super().__init__()
        self._model = model
        self._news = News(0.0)
        self._notice = ""

    def set_news(self, news: News) -> None:
        self._news = news
        self.show()

    def set_notice(self, words: str) -> None:
        self._notice = words
        self.set_timer(NOTICE_TIME, self._clear)
        self.show()

    def _clear(self) -> None:
        self._notice = ""
        self.show()

    def height_for(self, rows: int) -> int:
        return 4 if rows >= 10 else 2

    def draw(self, y: int, width: int) -> Line:
        job = self._model.job
        if y == 0:
            return job_line(self._model, width, self.glyphs)
        if y == 1:
            return progress_line(self._model, width, self.glyphs)
        if y == 2:
            return rounds_line(job, width, self.glyphs) if job else []
        return self._message()

    def _message(self) -> Line:
        """The most important one."""
        news, job, missing = self._news, self._model.job, self._model.missing
        if news.ending:
            bad = news.ending.startswith("failed")
            return [(" ended: ", PLAIN), (news.ending, BAD if bad else BOLD), ("; press q to leave", DIM)]
        if self._notice:
            return [(f" {self._notice}", ACCENT)]
        if news.why:
            return [(f" no answer: {printable(news.why)}; asking again", WARN)]
        if missing:
            hosts = list_in_words([f"{printable(host)} ({printable(why)})" for host, why in missing], 3)
            return [(f" no answer from {hosts}", BAD)]
        return [(f" {printable(job.message)}", WARN)] if job and job.message else []


class KeyLine(LinesView, can_focus=True):
    """The keys, as many as fit; or a question to the user. Any key but `y` means no."""

    def __init__(self) -> None:
        super().__init__()
        self._question = ""
        self._decide: Callable[[bool], object] = bool

    @property
    def is_asking(self) -> bool:
        return bool(self._question)

    def ask(self, question: str, decide: Callable[[bool], object]) -> None:
        self._question, self._decide = question, decide
        self.screen.set_focus(self)
        self.show()

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()  # it has no other meaning now
        self.answer(agreed=event.key == "y")

    def answer(self, *, agreed: bool) -> None:
        if self._question:
            self._question = ""
            self.show()
            self._decide(agreed)

    def draw(self, y: int, width: int) -> Line:  # noqa: ARG002  there is one line
        if self._question:
            return [(f" {self._question} ", BAD), ("y", BOLD), (" yes  ", DIM), ("any other key", BOLD), (" no", DIM)]
        line: Line = [(" ", PLAIN)]
        for key, word in (part.split() for part in (*FOOT, *MORE)):
            if width_of(line) + len(key) + 1 + len(word) <= width:
                line += [(key, BOLD), (f" {word}  ", DIM)]
        return line
