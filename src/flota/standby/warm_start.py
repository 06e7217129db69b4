"""WarmStart starts: what is parked for the next workers, which way they come, and the words about it.

Imported only with --warm.
"""

from __future__ import annotations

import os
import time
from functools import partial

from flota.failures.oom import available
from flota.host.channel import Channel
from flota.host.loop import Loop
from flota.host.process_start import ProcessSpec
from flota.host.round import Round
from flota.job.spec import JobSpec
from flota.standby.fork_template import Origin, recorded
from flota.standby.parked_protocol import receive
from flota.standby.standby_pool import Spares
from flota.standby.strategy import AUTO, COLD, FORK, SPARES, Parked, Way, first_way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket
    from typing import Any

LOOK_AGAIN = 1.0  # seconds between looks whether workers have come to their first step: shared memory wakes nobody
LONGEST_FIRST_STEP = 30.0  # seconds after which workers that tell no steps are taken to have come to it
PART = 4  # of the memory that nobody uses: what spares may take


class WarmStart:
    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.origin: Origin | None = None
        self.candidate: Origin | None = None  # it imports more, to take the origin's place
        self.is_better = False  # the candidate has done so
        self.spares: Spares | None = None
        self.leaving: Spares | None = None  # they are workers by now, unless they say why not
        self.deadline: float | None = None
        self.seen: list[str] = []  # what the first attempt has imported by itself
        self._spawns: list[ProcessSpec] = []
        self._in_round: tuple[Round, Channel, list[int], float] | None = None
        self._loop: Loop | None = None
        self._say: Callable[[str, str], None] = lambda _level, _words: None
        commands = [role.command or spec.command for role in spec.all_roles if role.workers]
        self._choose(first_way(commands, [command.python for command in commands if _is_script(command.python)]))
        if not hasattr(os, "memfd_create"):
            self._choose(Way(COLD, "this system has no files without names"))

    def _choose(self, way: Way) -> None:
        self.way, self._why = way
        self._tell_why()

    def _tell_why(self) -> None:
        if self._why:
            self._say("INFO", f"warm: an ordinary start: {self._why}")

    def attach(self, loop: Loop, say: Callable[[str, str], None]) -> None:
        self._loop, self._say = loop, say
        self._tell_why()
        self._watch()

    # Starts.

    def prepare(self, spawns: list[ProcessSpec]) -> None:
        """Before it is known with whom: the imports need not wait for that."""
        self._spawns = spawns
        if self.way == FORK:
            self._start_origin(patient=False)

    def start(self, spawns: list[ProcessSpec]) -> Callable[[], tuple[int, int, int]] | None:
        """How a round's workers start; None: cold."""
        is_first, self._spawns = not self._spawns, spawns
        if is_first and self.way == FORK:
            self._start_origin(patient=False)
        elif self.candidate and self.is_better:
            self._promote()
        if self.origin:
            return partial(self.origin.fork, spawns, records=self._wants_names())
        if self.spares and not self.spares.are_alive:
            self._close_spares()
            self._say("WARNING", "warm: a parked interpreter has ended, this start is an ordinary one")
        if self.spares:
            self._leave()
            self.leaving, self.spares = self.spares, None
            self._watch()
            return partial(self.leaving.hand_over, spawns, records=self._wants_names())
        return None

    def cold(self, spawns: list[ProcessSpec]) -> list[ProcessSpec]:
        """The same workers where they start cold. They, too, may tell what they import."""
        return recorded(spawns) if self.way != COLD and self._wants_names() else spawns

    def _leave(self) -> None:
        """What is left of the last spares that became workers: ways to say that they could not."""
        for link in self.leaving.links if self.leaving else ():
            self._forget(link)
            link.close()
        self.leaving = None

    def _wants_names(self) -> bool:
        return AUTO in self.spec.warm and not self.seen

    def _start_origin(self, *, patient: bool) -> None:
        try:
            self.origin = Origin.start(self._spawns, self._wish(), patient=patient)
        except OSError as error:
            self._choose(Way(COLD, f"cannot start an interpreter: {error.strerror}"))
        self._watch()

    def _wish(self) -> dict[str, Any]:
        return {"modules": self.spec.warm, "seen": self.seen}

    # Rounds.

    def begin_round(self, round_: Round, channel: Channel, working: list[int]) -> None:
        now = time.monotonic()
        self._in_round = round_, channel, working, now
        self.deadline = now + LOOK_AGAIN

    def end_round(self) -> None:
        self._in_round = self.deadline = None

    def on_time(self, now: float) -> None:
        """After the first step there is time for the next attempt."""
        if self.deadline is None or now < self.deadline or self._in_round is None:
            return
        round_, channel, working, began = self._in_round
        self.deadline = now + LOOK_AGAIN
        if round_.is_pending:
            self._in_round = round_, channel, working, now
            return
        if not self._may_restart():
            self.deadline = None
            self._close_origin()
        elif now > began + LONGEST_FIRST_STEP or all(channel.read(worker).step >= 0 for worker in working):
            self.deadline = None
            self._get_ready(channel)

    def _may_restart(self) -> bool:
        return self.spec.restarts.enabled or self.spec.nodes is not None

    def _get_ready(self, channel: Channel) -> None:
        more = channel.imported_modules() if self._wants_names() else []
        self.seen = self.seen or more
        if self.way == FORK and self.origin is None:
            self._start_origin(patient=True)
        elif self.way == FORK and self.origin and more:
            self._split(self.origin)
        elif self.way == SPARES and self.spares is None:
            self._park(patient=True)

    def _split(self, origin: Origin) -> None:
        try:
            self.candidate = origin.split(self._spawns, self._wish())
        except OSError:
            return  # no room for a better one; or the origin is gone, which its link says next
        self._watch()

    def _park(self, *, patient: bool) -> None:
        limit = available() // PART if self.spec.warm_memory is None else self.spec.warm_memory
        try:
            self.spares = Spares(self._spawns, self._wish(), limit, patient=patient)
        except OSError as error:
            self._choose(Way(COLD, f"cannot start interpreters: {error.strerror}"))
        self._watch()

    def call_off(self) -> None:
        """Nobody wants the workers any more that would come of it."""
        self._close_origin()

    # What parked interpreters say.

    def _watch(self) -> None:
        if self._loop is None:
            return
        if self.origin:
            self._loop.watch(self.origin.link.fileno(), self._on_origin)
        if self.candidate:
            self._loop.watch(self.candidate.link.fileno(), self._on_candidate)
        for slot, link in enumerate(self.spares.links if self.spares else ()):
            self._loop.watch(link.fileno(), lambda slot=slot: self._on_spare(slot))  # type: ignore[misc]
        for link in self.leaving.links if self.leaving else ():
            self._loop.watch(link.fileno(), lambda link=link: self._on_leaving(link))  # type: ignore[misc]

    def _forget(self, *links: socket) -> None:
        for link in links:
            if self._loop and link.fileno() >= 0:
                self._loop.forget(link.fileno())

    def _on_origin(self) -> None:
        assert self.origin is not None
        said = self.origin.read()
        if said is None:
            words = self.origin.last_words()
            self._close_origin()
            why = f": {words}" if words else ""
            self._say("WARNING", f"warm: the parked interpreter has ended, the next start is an ordinary one{why}")
            return
        parked = Parked(*said["parked"])
        if parked.unforkable:
            self._close_origin()
            self._go_another_way(parked)
        elif "seconds" in said:
            names, seconds = _listed(said["names"]), said["seconds"]
            how = f"workers are forks of one interpreter that imported {names} in {seconds:.1f} s"
            self._say("INFO", f"warm: {how}, and has one thread and no device open")

    def _go_another_way(self, parked: Parked) -> None:
        self._say("INFO", f"warm: an ordinary start: {parked.unforkable}")
        if parked.failed:
            self.way = COLD
        elif not parked.stale:
            self.way = SPARES
            if self._may_restart():
                self._say("INFO", "warm: for the next start one interpreter for each worker is parked")
                if not self._in_round:
                    self._park(patient=False)

    def _on_candidate(self) -> None:
        assert self.candidate is not None
        said = self.candidate.read()
        self.is_better = said is not None and not Parked(*said["parked"]).unforkable
        if not self.is_better:
            self._forget(self.candidate.link)
            self.candidate.close()
            self.candidate = None
            return
        self._say("INFO", "warm: what the workers have imported since is ready for the next start, too")

    def _promote(self) -> None:
        """Only between rounds: an origin that is about to fork must not be ended."""
        assert self.candidate is not None
        self._close_origin()
        self.origin, self.candidate = self.candidate, None
        self.is_better = False
        self._watch()

    def _on_leaving(self, link: socket) -> None:
        assert self.leaving is not None
        got = receive(link)
        if got is not None and not got[0].get("refused"):
            return  # it has imported to the end before it becomes one
        self._forget(link)
        link.close()
        self.leaving.links.remove(link)
        if got is not None:
            self._say("INFO", f"warm: an ordinary start: {Parked(*got[0]['parked']).refusal}")

    def _on_spare(self, slot: int) -> None:
        assert self.spares is not None
        said = self.spares.read(slot)
        refusal = "one has ended" if said is None else Parked(*said["parked"]).failed or self.spares.given_up
        if refusal:
            self._close_spares()
            self.way = COLD
            self._say("WARNING", f"warm: the next start is an ordinary one: {refusal}")
        elif self.spares.is_done:
            ready, all_ = self.spares.ready, len(self.spares.links)
            self._say("INFO", f"warm: {ready} of {all_} interpreters are ready for the next start")

    # Endings.

    def _close_origin(self) -> None:
        if self.origin:
            self._forget(self.origin.link)
            self.origin.close()
            self.origin = None

    def _close_spares(self) -> None:
        if self.spares:
            self._forget(*self.spares.links)
            self.spares.close()
            self.spares = None

    def close(self) -> None:
        self._close_origin()
        self._close_spares()
        self._leave()
        if self.candidate:
            self.candidate.close()


def _is_script(python: str) -> bool:
    """What runs Python with flags of its own might not let it park."""
    try:
        with open(python, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False  # starting it says why


def _listed(names: list[str]) -> str:
    shown = [name for name in names if "." not in name] or names
    return (", ".join(shown[:4]) or "nothing yet") + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
