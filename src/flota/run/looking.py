"""`flota stack` beside a job on many machines: this node passes the question on, and takes its own ranks' stacks.

Asked through a socket that has no file, and by this job's user or root alone.
"""

from __future__ import annotations

import os
import socket

from flota.host.spy import Spy, find_spy
from flota.rendezvous.cards import PostRow, sendable
from flota.run.asking import address_of
from flota.run.stacking import StackTaker, Subject, Taken, posts_of, save, subjects_of
from flota.supervise.suspects import groups_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
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
        self._server.bind(address_of(os.getpid()))
        self._server.listen(MOST)
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
        look = self.together.member.node.ask_for_look() if _is_trusted(asker) else 0
        if look and len(self._waiting) < MOST:
            self._waiting.append((look, asker))
            self.together.advance()
        else:
            asker.close()

    def take(self) -> None:
        """Where this node's ranks stand; its stacks are in a file."""
        together = self.together
        subjects = subjects_of(together.started, together.ending.pids, together.supervisor.alive)
        if self._spy:
            self._spy.stop()
        StackTaker(self._spy).take(subjects, lambda taken: self._taken(subjects, taken), everybody=True)

    def _taken(self, subjects: list[Subject], taken: Taken) -> None:
        together = self.together
        if not together.in_round:
            return
        posts = posts_of(subjects, taken.samples)
        try:
            save(together.spec, together.started, groups_in_words(posts), subjects, taken.samples)
        except OSError as error:
            together.console.say("WARNING", f"cannot write {error.filename}: {error.strerror}")
        together.member.node.looked(
            tuple(
                PostRow(post.rank, post.kind, sendable(post.words), post.role, post.worker, post.pid, "", 0.0)
                for post in posts
            )
        )
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
        self.together.loop.forget(self._server.fileno())
        self._server.close()
        for _, asker in self._waiting:
            asker.close()


def _is_trusted(asker: socket.socket) -> bool:
    import struct

    credentials = asker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] in (0, os.getuid())


def _answer(asker: socket.socket, text: str) -> None:
    """A few lines, which fit into any socket's buffer."""
    try:
        asker.send(text.encode())
    except OSError:
        pass  # it has gone
    asker.close()
