"""`flota stack` beside a job on many machines: this node passes the question on, and takes its own ranks' stacks.

Asked through a socket that has no file, and by this job's user or root alone.
"""

from __future__ import annotations

import os
import socket

from flota.host.spy import Spy, find_spy
from flota.rendezvous.cards import row_of
from flota.run.asking import address_of, peer_of
from flota.run.stacking import StackTaker, Subject, Taken, posts_of, save, subjects_of
from flota.supervise.suspects import groups_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.run.start import Started
    from flota.run.together import Together

MOST = 8  # who wait for an answer at a time


class Looking:
    def __init__(self, together: Together) -> None:
        self.together = together
        self._waiting: list[tuple[int, socket.socket]] = []  # for which look
        program = find_spy(together.environ)
        self._spy = Spy(program, together.loop) if program else None
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.settimeout(0)
        try:
            self._server.bind(address_of(os.getpid()))
            self._server.listen(MOST)
        except OSError:
            return  # no /proc, or somebody has taken the name: then nobody can ask
        together.loop.watch(self._server.fileno(), self._on_asked)

    @property
    def deadline(self) -> float | None:
        return self._spy.deadline if self._spy and self._spy.busy else None

    def on_time(self, now: float) -> None:
        if self._spy:
            self._spy.on_time(now)

    def _on_asked(self) -> None:
        try:
            asker, _ = self._server.accept()
        except OSError:
            return
        look = self.together.member.node.ask_for_look() if peer_of(asker).user in (0, os.getuid()) else 0
        if look and len(self._waiting) < MOST:
            self._waiting.append((look, asker))
            self.together.advance()
        else:
            asker.close()

    def take(self) -> None:
        """Where this node's ranks stand; its stacks are in a file."""
        together = self.together
        started = together.started
        subjects = subjects_of(started, together.ending.pids, together.supervisor.alive)
        if self._spy:
            self._spy.stop()
        StackTaker(self._spy).take(subjects, lambda taken: self._taken(started, subjects, taken), everybody=True)

    def _taken(self, started: Started, subjects: list[Subject], taken: Taken) -> None:
        together = self.together
        if not together.in_round or started is not together.started:
            return
        posts = posts_of(subjects, taken.samples)
        try:
            save(together.spec, started, groups_in_words(posts), subjects, taken.samples)
        except OSError as error:
            together.console.say("WARNING", f"cannot write {error.filename}: {error.strerror}")
        together.member.node.looked(tuple(row_of(post, started.plans[post.worker].worker.local_rank) for post in posts))
        together.advance()

    def tell(self) -> None:
        """Those who wait, when all nodes have been heard, or the round has ended."""
        notice = self.together.member.node.notice
        for look, asker in list(self._waiting):
            done = notice is not None and notice.looked >= look
            if done or not self.together.in_round:
                self._waiting.remove((look, asker))
                _answer(asker, "\n".join(notice.places) if done and notice else "")

    def close(self) -> None:
        if self._spy:
            self._spy.stop()
        self.together.loop.forget(self._server.fileno())
        self._server.close()
        for _, asker in self._waiting:
            asker.close()


def _answer(asker: socket.socket, text: str) -> None:
    """A few lines, which fit into any socket's buffer."""
    try:
        asker.send(text.encode())
    except OSError:
        pass  # it has gone
    asker.close()
