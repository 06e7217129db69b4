"""`flota stack` beside a job on many machines: this node passes the question on, and takes its own ranks' stacks.

Asked through a socket that has no file, and by this job's user or root alone.
"""

from __future__ import annotations

import os
import socket

from flota.cluster.node_record import sendable_position
from flota.hangs.capture import StackTaker, Subject, Taken, positions_of, save, subjects_of
from flota.hangs.command import address_of, peer_of
from flota.hangs.pyspy import Spy, find_spy
from flota.hangs.suspects import groups_in_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode
    from flota.run.start import Started

MOST = 8  # who wait for an answer at a time


class Looking:
    def __init__(self, multi_node: MultiNode) -> None:
        self.multi_node = multi_node
        self._waiting: list[tuple[int, socket.socket]] = []  # for which look
        program = find_spy(multi_node.environ)
        self._spy = Spy(program, multi_node.loop) if program else None
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.settimeout(0)
        try:
            self._server.bind(address_of(os.getpid()))
            self._server.listen(MOST)
        except OSError:
            return  # no /proc, or somebody has taken the name: then nobody can ask
        multi_node.loop.watch(self._server.fileno(), self._on_asked)

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
        look = self.multi_node.member.node.ask_for_look() if peer_of(asker).user in (0, os.getuid()) else 0
        if look and len(self._waiting) < MOST:
            self._waiting.append((look, asker))
            self.multi_node.advance()
        else:
            asker.close()

    def take(self) -> None:
        """Where this node's ranks stand; its stacks are in a file."""
        multi_node = self.multi_node
        started = multi_node.started
        subjects = subjects_of(started, multi_node.evidence.pids, multi_node.supervisor.alive)
        if self._spy:
            self._spy.stop()
        StackTaker(self._spy).take(subjects, lambda taken: self._taken(started, subjects, taken), everybody=True)

    def _taken(self, started: Started, subjects: list[Subject], taken: Taken) -> None:
        multi_node = self.multi_node
        if not multi_node.in_round or started is not multi_node.started:
            return
        positions = positions_of(subjects, taken.samples, started.roster.seats[started.seat].host)
        try:
            save(multi_node.spec, started, groups_in_words(positions), subjects, taken.samples)
        except OSError as error:
            multi_node.console.say("WARNING", f"cannot write {error.filename}: {error.strerror}")
        multi_node.member.node.looked(tuple(sendable_position(post) for post in positions))
        multi_node.advance()

    def tell(self) -> None:
        """Those who wait, when all nodes have been heard, or the round has ended."""
        job_state = self.multi_node.member.node.job_state
        for look, asker in list(self._waiting):
            done = job_state is not None and job_state.looked >= look
            if done or not self.multi_node.in_round:
                self._waiting.remove((look, asker))
                _answer(asker, "\n".join(job_state.places) if done and job_state else "")

    def close(self) -> None:
        if self._spy:
            self._spy.stop()
        self.multi_node.loop.forget(self._server.fileno())
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
