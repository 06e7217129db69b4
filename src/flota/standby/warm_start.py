"""WarmStart carries out in the node what `strategy.py` decides: it parks interpreters, starts workers from them, and
prints which way was taken. Imported only with --warm."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from socket import socket

from flota.failures.oom import available
from flota.host.channel import Channel
from flota.host.loop import Loop
from flota.host.process_start import ProcessSpec
from flota.host.round import Round
from flota.job.spec import JobSpec
from flota.standby.parked_interpreters import ForkTemplate, StandbyPool, with_site
from flota.standby.parked_protocol import receive
from flota.standby.strategy import AUTO, COLD, FORK, POOL, ImportOutcome, first_choice

CHECK_INTERVAL = 1.0  # seconds between checks whether workers have made their first step: shared memory wakes no reader
LONGEST_FIRST_STEP = 30.0  # seconds after which workers that report no steps are assumed to have made it
POOL_SHARE = 4  # a pool may take one part in so many of the free memory


class WarmStart:
    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.template: ForkTemplate | None = None
        self.pool: StandbyPool | None = None
        self.deadline: float | None = None
        self.learnt: list[str] = []  # modules that the first attempt imported
        self._spawns: list[ProcessSpec] = []
        self._round: tuple[Round, Channel, list[int], float] | None = None
        self._callbacks: dict[socket, Callable[[], None]] = {}  # of the links to interpreters
        self._loop: Loop | None = None
        self._early: list[tuple[str, str]] = []  # what is to be printed once there is a console
        self._print: Callable[[str, str], None] = lambda level, text: self._early.append((level, text))
        self._may_restart = spec.restarts.enabled or spec.nodes is not None
        commands = [role.command or spec.command for role in spec.all_roles if role.workers]
        self.way, reason = first_choice(commands, [one.python for one in commands if _is_script(one.python)])
        if not hasattr(os, "memfd_create"):
            self.way, reason = COLD, "this system has no files without names"
        if reason:
            self._print_ordinary(reason)

    def attach(self, loop: Loop, print_: Callable[[str, str], None]) -> None:
        self._loop, self._print = loop, print_
        for level, text in self._early:
            print_(level, text)
        for link, callback in self._callbacks.items():
            loop.watch(link.fileno(), callback)

    def _print_ordinary(self, reason: str) -> None:
        self._print("INFO", f"warm: an ordinary start: {reason}")

    def prepare(self, spawns: list[ProcessSpec]) -> None:
        """Before all nodes have joined: imports need not wait for that."""
        self._spawns = spawns
        if self.way == FORK:
            self._park()

    def start(self, spawns: list[ProcessSpec]) -> Callable[[], tuple[int, int, int]] | None:
        """How a round's workers start; None: cold."""
        if not self._spawns:
            self.prepare(spawns)
        self._spawns = spawns
        if self.template:
            return partial(self.template.fork, spawns, records=self._is_learning)
        if self.pool and not self.pool.is_alive:
            self.call_off()
            self._print("WARNING", "warm: a parked interpreter has ended, this start is an ordinary one")
        if self.pool is None:
            return None
        pool, self.pool = self.pool, None
        for link in pool.links:
            self._listen(link, partial(self._on_handed_over, link))
        return partial(pool.hand_over, spawns, records=self._is_learning)

    def cold(self, spawns: list[ProcessSpec]) -> list[ProcessSpec]:
        """The same workers for a cold start, of which the first can record imports as well."""
        learns = self.way != COLD and self._is_learning
        return [with_site(spawns[0], FLOTA_RECORD="1"), *spawns[1:]] if learns else spawns

    @property
    def _is_learning(self) -> bool:
        return AUTO in self.spec.warm and not self.learnt

    def begin_round(self, round_: Round, channel: Channel, working: list[int]) -> None:
        now = time.monotonic()
        self._round = round_, channel, working, now
        self.deadline = now + CHECK_INTERVAL

    def end_round(self) -> None:
        self._round = self.deadline = None

    def on_time(self, now: float) -> None:
        """Prepare the next start when the workers of this one have made their first step."""
        if self.deadline is None or now < self.deadline or self._round is None:
            return
        round_, channel, working, began = self._round
        self.deadline = now + CHECK_INTERVAL
        if round_.is_pending:
            self._round = round_, channel, working, now
            return
        is_late = now > began + LONGEST_FIRST_STEP or not self._may_restart
        if is_late or all(channel.read(worker).step >= 0 for worker in working):
            self.deadline = None
            self._prepare_next(channel.imported_modules() if self._is_learning else [])

    def _prepare_next(self, learnt: list[str]) -> None:
        self.learnt = self.learnt or learnt
        if not self._may_restart:
            self.call_off()
        elif self.way != COLD and (not (self.template or self.pool) or (self.way == FORK and learnt)):
            self.call_off()  # a template is replaced when there is more to import
            self._park()

    def _park(self) -> None:
        """Start the interpreters that the next workers come from."""
        imports = self._spawns, self.spec.warm, self.learnt
        try:
            if self.way == FORK:
                self.template = ForkTemplate(*imports)
                self._listen(self.template.link, partial(self._on_template, self.template))
            else:
                limit = available() // POOL_SHARE if self.spec.warm_memory is None else self.spec.warm_memory
                self.pool = StandbyPool(*imports, limit)
                for number, link in enumerate(self.pool.links):
                    self._listen(link, partial(self._on_standby, self.pool, number))
        except OSError as error:
            self.way = COLD
            self._print_ordinary(f"cannot start interpreters: {error.strerror}")

    def _on_template(self, template: ForkTemplate) -> None:
        received = receive(template.link)
        report = received[0] if received else {}
        outcome = ImportOutcome(*report.get("outcome", ()))
        is_ready = bool(report) and not outcome.unforkable
        if is_ready and self.learnt:
            self._print("INFO", "warm: what the workers have imported since is ready for the next start, too")
        elif is_ready:
            how = f"workers are forks of one interpreter that imported {_listed(report['names'])}"
            self._print("INFO", f"warm: {how} in {report['seconds']:.1f} s, and has one thread and no device open")
        else:
            line = template.last_line()
            self.call_off()
            if report:
                self._use_other_way(outcome)
            else:
                ended = "the parked interpreter has ended, the next start is an ordinary one"
                self._print("WARNING", f"warm: {ended}: {line}" if line else f"warm: {ended}")

    def _use_other_way(self, outcome: ImportOutcome) -> None:
        self._print_ordinary(outcome.unforkable)
        self.way = outcome.way_instead_of_fork
        if self.way == POOL and self._may_restart:
            self._print("INFO", "warm: for the next start one interpreter for each worker is parked")
            if self.deadline is None:  # otherwise the first step is still to come
                self._park()

    def _on_standby(self, pool: StandbyPool, number: int) -> None:
        report = pool.read(number)
        refusal = "one has ended" if report is None else ImportOutcome(*report["outcome"]).failed or pool.too_large
        if refusal:
            self.call_off()
            self.way = COLD
            self._print("WARNING", f"warm: the next start is an ordinary one: {refusal}")
        elif pool.ready == pool.asked:
            self._print("INFO", f"warm: {pool.ready} of {len(pool.links)} interpreters are ready for the next start")

    def _on_handed_over(self, link: socket) -> None:
        """It is a worker, unless it refuses. The link ends when it is."""
        received = receive(link)
        if received is not None and not received[0].get("refused"):
            return  # it has finished its imports before it becomes a worker
        self._close_links([link])
        if received is not None:
            self._print_ordinary(ImportOutcome(*received[0]["outcome"]).refusal)

    def _listen(self, link: socket, callback: Callable[[], None]) -> None:
        self._callbacks[link] = callback
        if self._loop:
            self._loop.watch(link.fileno(), callback)

    def _close_links(self, links: Iterable[socket]) -> None:
        for link in links:
            if self._callbacks.pop(link, None) and self._loop:
                self._loop.forget(link.fileno())
            link.close()

    def call_off(self) -> None:
        """End the interpreters that are parked, or are about to be forked, for the next start."""
        if self.template:
            self._close_links([self.template.link])
            self.template.close()
            self.template = None
        if self.pool:
            self._close_links(self.pool.links)
            self.pool.close()
            self.pool = None

    def close(self) -> None:
        self.call_off()
        self._close_links(list(self._callbacks))


def _is_script(python: str) -> bool:
    """Such a script may start Python with flags that keep it from parking."""
    try:
        with open(python, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False  # starting it reports why


def _listed(names: list[str]) -> str:
    shown = [name for name in names if "." not in name] or names
    return (", ".join(shown[:4]) or "nothing yet") + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
