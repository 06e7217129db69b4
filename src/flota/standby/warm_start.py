"""Performs in the node what `strategy.py` decides: parks interpreters, starts workers from them, replaces those that
exit, and prints which strategy is used. Imported only with --warm."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from socket import socket
from typing import Any

from flota.free_memory import available
from flota.host.channel import Channel
from flota.host.loop import READABLE, Loop
from flota.host.process_start import ProcessSpec
from flota.host.round import Round
from flota.job.spec import JobSpec
from flota.standby.first_choice import choose, waits_at_first
from flota.standby.parked_interpreters import ForkTemplate, StandbyPool
from flota.standby.parked_protocol import LOW_SHARE, receive
from flota.standby.replacement import Replacements
from flota.standby.site_folder import with_site
from flota.standby.strategy import AUTO, COLD, FORK, POOL, ImportOutcome, knows_ranks
from flota.standby.warm_text import imports_in_words, loss_in_words, next_restart_in_words

CHECK_INTERVAL = 1.0  # seconds between checks for the workers' first step, which they write to shared memory
LONGEST_FIRST_STEP = 30.0  # seconds after which workers that report no steps are assumed to have finished one
LONGEST_IMPORTS = 8.0  # seconds for which the first workers wait to be forked, not counting waits for a CPU
LONGEST_WARMING = 60.0  # seconds for which a running job does not wait for this node because of its imports
REPLACEMENT_SHARE = 0.5  # of one CPU, for imports while all are busy, if there is no other template
POOL_SHARE = 4  # a pool may use 1 / POOL_SHARE of the available memory


class WarmStart:
    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.template: ForkTemplate | None = None
        self.next_template: ForkTemplate | None = None  # imports more, and replaces `template` when it is ready
        self.pool: StandbyPool | None = None
        self.learnt: list[str] = []  # modules that the first attempt imported
        self._warming_until = time.monotonic() + LONGEST_WARMING
        self._check_at: float | None = None  # when to check for the workers' first step
        self._park_at: float | None = None  # when to replace an interpreter that exited
        self._replacements = Replacements()
        self._import_times: dict[str, object] = {}
        self._import_seconds = 0.0  # as last measured, in a template or in one interpreter of a pool
        self._asked_at: float | None = None  # when the workers of this round were to start warm
        self._start_seconds: float | None = None  # that the last warm start took, with all imports done
        self._is_announced = False  # whether users know that the next restart is warm
        self._processes: list[ProcessSpec] = []
        self._asked_clock = 0.0  # `_asked_at` on the template's clock
        self._round: tuple[Round, Channel, list[int], float] | None = None
        self._callbacks: dict[int, tuple[Callable[[], None], int]] = {}  # by descriptor, with the events to wait for
        self._handed_over: list[socket] = []  # links to interpreters that become workers
        self._loop: Loop | None = None
        self._early: list[tuple[str, str]] = []  # messages from before there is a console
        self._print: Callable[[str, str], None] = lambda level, text: self._early.append((level, text))
        self._may_restart = spec.restarts.enabled or spec.nodes is not None
        self._choice = choose(spec)
        self.strategy, self._parks_early = self._choice.strategy, self._choice.parks_early
        # Whether forks are known to be possible: before any import, or since a template was ready.
        self._is_forkable = self.strategy == FORK and not self._choice.uncertain
        if self._choice.why:
            self._print_without_fork(self._choice.why)

    @property
    def deadline(self) -> float | None:
        return min((time for time in (self._check_at, self._park_at) if time is not None), default=None)

    @property
    def is_warming(self) -> bool:
        """Whether imports for this node's first start still run: its workers would hold up a running job."""
        template, pool = self.template, self.pool
        imports = (template is not None and template.ready_at is None) or (pool is not None and pool.ready < pool.asked)
        return imports and time.monotonic() < self._warming_until

    def attach(self, loop: Loop, print_: Callable[[str, str], None]) -> None:
        self._loop, self._print = loop, print_
        for level, text in self._early:
            print_(level, text)
        for fd, callback in self._callbacks.items():
            loop.watch(fd, *callback)

    def _print_cold_start(self, reason: str) -> None:
        self._print("INFO", f"warm: cold start: {reason}")

    def _print_without_fork(self, reason: str) -> None:
        if self._parks_early:
            self._print("INFO", f"warm: one interpreter per worker is parked: {reason}")
        elif self.strategy == POOL and self._may_restart:
            self._print_cold_start(f"{reason}; one interpreter per worker will be parked for the next start")
        else:
            self._print_cold_start(reason)

    def prepare(self, processes: list[ProcessSpec]) -> None:
        """Start imports before all nodes have joined: they need not wait for that."""
        self._processes = processes
        if self.strategy == FORK or self._parks_early:
            self._park()

    def start(self, processes: list[ProcessSpec]) -> Callable[[], tuple[int, int, int]] | None:
        """Return a function that starts a round's workers; None for a cold start."""
        if not self._processes:
            self.prepare(processes)
        self._processes, self._warming_until = processes, 0.0
        self._adopt_next()
        self._asked_at = None
        if self.strategy == FORK and self._is_forkable and not self.template:
            self._park()  # it was lost just now: one import for all workers is not slower than one in each
        if self.template and not self._waits_for(self.template):
            self._print_cold_start(
                f"it is not known whether {self._choice.uncertain} can be forked; imports go on beside the workers"
            )
            return None
        if self.template:
            self._asked_at, self._asked_clock = time.monotonic(), self.template.clock()
            return partial(self.template.fork, processes, records=self._is_learning)
        return self._start_from_pool(processes)

    def _waits_for(self, template: ForkTemplate) -> bool:
        """Whether workers wait until this template can be forked, or find out that it cannot."""
        return template.ready_at is not None or self._is_forkable or waits_at_first(self.spec, self._choice)

    def _start_from_pool(self, processes: list[ProcessSpec]) -> Callable[[], tuple[int, int, int]] | None:
        if self.pool and not self.pool.is_alive:
            self.discard_parked()
            self._print("WARNING", "warm: a parked interpreter exited; this start is cold")
        if self.pool is None:
            return None
        pool, self.pool = self.pool, None
        self._forget(pool.reports, *(link.fileno() for link in pool.links))
        self._asked_at = time.monotonic()
        self._handed_over += pool.links
        for link in pool.links:
            self._listen(link.fileno(), partial(self._on_handed_over, link))
        return partial(pool.hand_over, processes, records=self._is_learning)

    def cold(self, processes: list[ProcessSpec]) -> list[ProcessSpec]:
        """Return the workers for a cold start, in which the first one may record its imports."""
        learns = self.strategy != COLD and self._is_learning
        return [with_site(processes[0], FLOTA_RECORD="1"), *processes[1:]] if learns else processes

    @property
    def _is_learning(self) -> bool:
        return AUTO in self.spec.warm and not self.learnt

    def begin_round(self, round_: Round, channel: Channel, working: list[int]) -> None:
        now = time.monotonic()
        self._round = round_, channel, working, now
        self._check_at = now + CHECK_INTERVAL

    def end_round(self) -> None:
        self._round = self._check_at = None

    def on_time(self, now: float) -> None:
        """Replace interpreters that exited, and prepare the next start when the current workers have finished their
        first step."""
        if self._park_at is not None and now >= self._park_at:
            self._park()
        if self._check_at is None or now < self._check_at or self._round is None:
            return
        round_, channel, working, began = self._round
        self._check_at = now + CHECK_INTERVAL
        if round_.is_pending:
            self._round = round_, channel, working, now
            self._limit_wait()
            return
        is_late = now > began + LONGEST_FIRST_STEP or not self._may_restart
        if is_late or all(channel.read(worker).step >= 0 for worker in working):
            self._check_at = None
            self._prepare_next(channel.imported_modules() if self._is_learning else [])

    def _limit_wait(self) -> None:
        """Start the workers cold if the imports take long, unless these modules are known to be forkable."""
        if self.template and not self._is_forkable and self.template.clock() - self._asked_clock > LONGEST_IMPORTS:
            self._print_cold_start(f"the imports take more than {LONGEST_IMPORTS:.0f} s")
            self.discard_parked()

    def _prepare_next(self, learnt: list[str]) -> None:
        self.learnt = self.learnt or learnt
        if not self._may_restart:
            self.discard_parked()
        elif learnt and self.template and self.template.ready_at is not None:
            self.next_template = self._park_template(LOW_SHARE)
        elif self.strategy != COLD and self._park_at is None and (learnt or not (self.template or self.pool)):
            self.discard_parked()
            self._park()
        else:
            self._announce_warm_restart()

    def _park(self) -> None:
        """Start the interpreters for the next workers."""
        self._park_at = None
        if self.strategy == FORK:  # beside cold workers, imports leave the CPUs to these
            self.template = self._park_template(REPLACEMENT_SHARE if self._is_forkable else LOW_SHARE)
        elif self.strategy == POOL:
            self._park_pool()

    def _park_template(self, share: float) -> ForkTemplate | None:
        try:
            template = ForkTemplate(self._processes, self.spec.warm, self.learnt, share)
        except OSError as error:
            self._cannot_park(error)
            return None
        self._listen(template.link.fileno(), partial(self._on_template, template))
        return template

    def _park_pool(self) -> None:
        limit = available() // POOL_SHARE if self.spec.warm_memory is None else self.spec.warm_memory
        try:
            pool = self.pool = StandbyPool(self._processes, self.spec.warm, self.learnt, limit)
        except OSError as error:
            self._cannot_park(error)
            return
        self._listen(pool.reports, partial(self._on_lost, pool), 0)  # it closes if the shepherd exits
        for number, link in enumerate(pool.links):
            self._listen(link.fileno(), partial(self._on_standby, pool, number))

    def _cannot_park(self, error: OSError) -> None:
        self.strategy = COLD
        self._print_cold_start(f"cannot start interpreters: {error.strerror}")

    def _on_template(self, template: ForkTemplate) -> None:
        received = receive(template.link)
        if received is None:
            self._on_lost(template)
            return
        report, _ = received
        outcome = ImportOutcome(*report["outcome"])
        if not outcome.unforkable:
            self._on_imported(template, report)
        elif template is self.next_template and self.template and self.template.names:
            self._close(template)  # the one before can be forked, and has imported something
        else:
            self.discard_parked()
            self._change_strategy(outcome)

    def _on_imported(self, template: ForkTemplate, report: dict[str, Any]) -> None:
        names, seconds = report["names"], report["seconds"]
        template.ready_at, template.names, self._import_seconds = time.monotonic(), names, seconds
        self._import_times = {"imported_at": template.ready_at, "import_seconds": seconds}
        self._is_forkable = True
        if template is self.next_template:
            self._adopt_next()
        elif self._replacements.in_a_row == 0 and not self.learnt:
            who = "workers are" if self._asked_at is not None or self._round is None else "the next workers are"
            self._print("INFO", f"warm: {who} forked from one interpreter, which {imports_in_words(names, seconds)}")
        if self.learnt or self._replacements.in_a_row or (self._round and self._check_at is None):
            self._announce_warm_restart()

    def _adopt_next(self) -> None:
        """Use the template that has imported more, unless the one before is about to be forked."""
        is_pending = self._round is not None and self._round[0].is_pending
        if self.next_template and self.next_template.ready_at is not None and not is_pending:
            before, self.template, self.next_template = self.template, self.next_template, None
            if before:
                self._close(before)

    def _on_lost(self, parked: ForkTemplate | StandbyPool) -> None:
        """Replace what exited: the next start may come at any moment."""
        line = parked.last_line() if isinstance(parked, ForkTemplate) else ""
        self._close(parked)
        if self.template:
            return  # only the one that imports more is lost
        if self.next_template:
            self.template, self.next_template = self.next_template, None
            return
        pause = self._replacements.pause(time.monotonic() - parked.began) if self._may_restart else None
        if pause is not None:
            self._park_at = time.monotonic() + pause
        if self._may_restart and pause is None:
            self.strategy = COLD
            self._print("WARNING", "warm: parked interpreters exit again and again; all further starts are cold")
        elif self._replacements.in_a_row <= 1:
            words = loss_in_words(line, self._import_seconds, is_replaced=pause is not None)
            self._print("WARNING", f"warm: {words}")
        self._is_announced = False

    def _announce_warm_restart(self) -> None:
        """Print what the next restart costs, once it is warm."""
        pool = self.pool
        is_ready = bool(self.template and self.template.ready_at is not None) or bool(pool and pool.ready == pool.asked)
        if is_ready and self._may_restart and not self._is_announced:
            self._is_announced = True
            ready = f"{pool.ready} of {len(pool.links)} interpreters are ready for the next start; " if pool else ""
            self._print("INFO", f"warm: {ready}{next_restart_in_words(self._start_seconds, self._import_seconds)}")

    def note_started(self, at: float) -> dict[str, object]:
        """A worker has started. Returns when a template had finished its imports, and how long they took: once."""
        if self._asked_at is not None and self.template and self.template.ready_at is not None:
            self._start_seconds = max(0.0, at - max(self._asked_at, self.template.ready_at))
        times, self._import_times = self._import_times, {}
        return times

    def _change_strategy(self, outcome: ImportOutcome) -> None:
        self.strategy = outcome.strategy_without_fork
        # Without ranks, an interpreter whose imports read one is useless. In a round, `on_time` parks interpreters.
        has_ranks = not outcome.changed_variable or knows_ranks([process.env for process in self._processes])
        self._parks_early = self.strategy == POOL and self._may_restart and self._check_at is None and has_ranks
        self._print_without_fork(outcome.unforkable)
        if self._parks_early:
            self._park()

    def _on_standby(self, pool: StandbyPool, number: int) -> None:
        report = pool.read(number)
        if report is None:
            self._on_lost(pool)
            return
        refusal = ImportOutcome(*report["outcome"]).failed or pool.too_large
        if refusal:
            self.discard_parked()
            self.strategy = COLD
            self._print("WARNING", f"warm: the next start will be cold: {refusal}")
        elif pool.ready == pool.asked:
            self._import_seconds = pool.seconds
            self._announce_warm_restart()

    def _on_handed_over(self, link: socket) -> None:
        """Handle a link after `hand_over`: it closes when the interpreter is a worker, or reports a refusal."""
        received = receive(link)
        if received is not None and not received[0].get("refused"):
            return  # a report about imports that finished meanwhile
        self._forget(link.fileno())
        self._handed_over.remove(link)
        link.close()
        if received is not None:
            self._print_cold_start(ImportOutcome(*received[0]["outcome"]).refusal)
        elif self._asked_at is not None:
            self._start_seconds = time.monotonic() - self._asked_at

    def _listen(self, fd: int, callback: Callable[[], None], events: int = READABLE) -> None:
        self._callbacks[fd] = callback, events
        if self._loop:
            self._loop.watch(fd, callback, events)

    def _forget(self, *fds: int) -> None:
        for fd in fds:
            if self._callbacks.pop(fd, None) and self._loop:
                self._loop.forget(fd)

    def _close(self, parked: ForkTemplate | StandbyPool) -> None:
        """Kill an interpreter, or all of a pool."""
        if isinstance(parked, StandbyPool):
            self.pool = None
            self._forget(parked.reports, *(link.fileno() for link in parked.links))
        else:
            self.template = None if parked is self.template else self.template
            self.next_template = None if parked is self.next_template else self.next_template
            self._forget(parked.link.fileno())
        parked.close()

    def discard_parked(self) -> None:
        """Kill the interpreters that are parked for the next start."""
        for parked in (self.template, self.next_template, self.pool):
            if parked:
                self._close(parked)
        self._is_announced = False

    def close(self) -> None:
        self._park_at = None
        self.discard_parked()
        for link in self._handed_over:
            self._forget(link.fileno())
            link.close()
