"""Performs in the node what `strategy.py` decides: parks interpreters, starts workers from them, and prints which
strategy is used. Imported only with --warm."""

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
from flota.job.spec import Command, JobSpec
from flota.standby.modules_to_import import known_modules
from flota.standby.parked_interpreters import ForkTemplate, StandbyPool
from flota.standby.parked_protocol import receive
from flota.standby.site_folder import with_site
from flota.standby.strategy import (
    AUTO,
    COLD,
    FORK,
    POOL,
    ImportOutcome,
    first_never_forked,
    first_that_reads_rank,
    initial_strategy,
    knows_ranks,
)

CHECK_INTERVAL = 1.0  # seconds between checks for the workers' first step, which they write to shared memory
LONGEST_FIRST_STEP = 30.0  # seconds after which workers that report no steps are assumed to have finished one
LONGEST_IMPORTS = 8.0  # seconds for which the first workers wait to be forked, not counting waits for a CPU
POOL_SHARE = 4  # a pool may use 1 / POOL_SHARE of the available memory


class WarmStart:
    def __init__(self, spec: JobSpec) -> None:
        self.spec = spec
        self.template: ForkTemplate | None = None
        self.pool: StandbyPool | None = None
        self.deadline: float | None = None
        self._import_times: dict[str, object] = {}
        self.learnt: list[str] = []  # modules that the first attempt imported
        self._processes: list[ProcessSpec] = []
        self._is_forkable = False  # whether a template has finished its imports, and could be forked
        self._asked_at = 0.0  # on the template's clock
        self._round: tuple[Round, Channel, list[int], float] | None = None
        self._callbacks: dict[socket, Callable[[], None]] = {}  # for the links to interpreters
        self._loop: Loop | None = None
        self._early: list[tuple[str, str]] = []  # messages from before there is a console
        self._print: Callable[[str, str], None] = lambda level, text: self._early.append((level, text))
        self._may_restart = spec.restarts.enabled or spec.nodes is not None
        commands = [role.command or spec.command for role in spec.all_roles if role.workers]
        self.strategy, reason = initial_strategy(commands, [one.python for one in commands if _is_script(one.python)])
        if not hasattr(os, "memfd_create"):
            self.strategy, reason = COLD, "this system has no memfd_create()"
        self._parks_early = False  # whether the pool can be parked before the ranks are known
        if self.strategy == FORK:
            reason = self._known_unforkable(commands[0])
        if reason:
            self._print_without_fork(reason)

    def _known_unforkable(self, command: Command) -> str:
        """Choose a pool if the modules to import are known to be unforkable. Returns why; empty if they are not."""
        modules = known_modules(command, self.spec.warm)
        never, reads_rank = first_never_forked(modules), first_that_reads_rank(modules)
        if never:
            self.strategy, self._parks_early = POOL, self.spec.nodes is not None
            return f"{never} is never forked"
        if reads_rank and (self.spec.nodes or self.spec.workers > 1):
            self.strategy = POOL
            return f"{reads_rank} reads the rank of its worker when it is imported"
        return ""

    def attach(self, loop: Loop, print_: Callable[[str, str], None]) -> None:
        self._loop, self._print = loop, print_
        for level, text in self._early:
            print_(level, text)
        for link, callback in self._callbacks.items():
            loop.watch(link.fileno(), callback)

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
        self._processes = processes
        if self.template:
            self._asked_at = self.template.clock()
            return partial(self.template.fork, processes, records=self._is_learning)
        if self.pool and not self.pool.is_alive:
            self.discard_parked()
            self._print("WARNING", "warm: a parked interpreter exited; this start is cold")
        if self.pool is None:
            return None
        pool, self.pool = self.pool, None
        for link in pool.links:
            self._listen(link, partial(self._on_handed_over, link))
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
        self.deadline = now + CHECK_INTERVAL

    def end_round(self) -> None:
        self._round = self.deadline = None

    def on_time(self, now: float) -> None:
        """Prepare the next start when the current workers have finished their first step."""
        if self.deadline is None or now < self.deadline or self._round is None:
            return
        round_, channel, working, began = self._round
        self.deadline = now + CHECK_INTERVAL
        if round_.is_pending:
            self._round = round_, channel, working, now
            self._limit_wait()
            return
        is_late = now > began + LONGEST_FIRST_STEP or not self._may_restart
        if is_late or all(channel.read(worker).step >= 0 for worker in working):
            self.deadline = None
            self._prepare_next(channel.imported_modules() if self._is_learning else [])

    def _limit_wait(self) -> None:
        """Start the workers cold if the imports take long, unless these modules are known to be forkable."""
        if self.template and not self._is_forkable and self.template.clock() - self._asked_at > LONGEST_IMPORTS:
            self._print_cold_start(f"the imports take more than {LONGEST_IMPORTS:.0f} s")
            self.discard_parked()

    def _prepare_next(self, learnt: list[str]) -> None:
        self.learnt = self.learnt or learnt
        if not self._may_restart:
            self.discard_parked()
        elif self.strategy != COLD and (not (self.template or self.pool) or (self.strategy == FORK and learnt)):
            self.discard_parked()  # a template is replaced if there is more to import
            self._park()

    def _park(self) -> None:
        """Start the interpreters for the next workers."""
        imports = self._processes, self.spec.warm, self.learnt
        try:
            if self.strategy == FORK:
                self.template = ForkTemplate(*imports)
                self._listen(self.template.link, partial(self._on_template, self.template))
            else:
                limit = available() // POOL_SHARE if self.spec.warm_memory is None else self.spec.warm_memory
                self.pool = StandbyPool(*imports, limit)
                for number, link in enumerate(self.pool.links):
                    self._listen(link, partial(self._on_standby, self.pool, number))
        except OSError as error:
            self.strategy = COLD
            self._print_cold_start(f"cannot start interpreters: {error.strerror}")

    def _on_template(self, template: ForkTemplate) -> None:
        received = receive(template.link)
        report = received[0] if received else {}
        outcome = ImportOutcome(*report.get("outcome", ()))
        is_ready = bool(report) and not outcome.unforkable
        self._is_forkable = self._is_forkable or is_ready
        if is_ready:
            self._import_times = {"imported_at": time.monotonic(), "import_seconds": report["seconds"]}
        if is_ready and self.learnt:
            self._print("INFO", "warm: modules that workers have imported since then are also ready for the next start")
        elif is_ready:
            imported = f"imported {_listed(report['names'])} in {report['seconds']:.1f} s"
            self._print("INFO", f"warm: workers are forked from one interpreter, which {imported}")
        else:
            line = template.last_line()
            self.discard_parked()
            if report:
                self._change_strategy(outcome)
            else:
                exited = "the parked interpreter exited; the next start will be cold"
                self._print("WARNING", f"warm: {exited}: {line}" if line else f"warm: {exited}")

    def take_import_times(self) -> dict[str, object]:
        """When a template had finished its imports, and how long they took. Returned once, for the first worker."""
        times, self._import_times = self._import_times, {}
        return times

    def _change_strategy(self, outcome: ImportOutcome) -> None:
        self.strategy = outcome.strategy_without_fork
        # Without ranks, an interpreter whose imports read one is useless. In a round, `on_time` parks interpreters.
        has_ranks = not outcome.changed_variable or knows_ranks([process.env for process in self._processes])
        self._parks_early = self.strategy == POOL and self._may_restart and self.deadline is None and has_ranks
        self._print_without_fork(outcome.unforkable)
        if self._parks_early:
            self._park()

    def _on_standby(self, pool: StandbyPool, number: int) -> None:
        report = pool.read(number)
        failed = "one interpreter exited" if report is None else ImportOutcome(*report["outcome"]).failed
        refusal = failed or pool.too_large
        if refusal:
            self.discard_parked()
            self.strategy = COLD
            self._print("WARNING", f"warm: the next start will be cold: {refusal}")
        elif pool.ready == pool.asked:
            self._print("INFO", f"warm: {pool.ready} of {len(pool.links)} interpreters are ready for the next start")

    def _on_handed_over(self, link: socket) -> None:
        """Handle a link after `hand_over`: it closes when the interpreter is a worker, or reports a refusal."""
        received = receive(link)
        if received is not None and not received[0].get("refused"):
            return  # a report about imports that finished meanwhile
        self._close_links([link])
        if received is not None:
            self._print_cold_start(ImportOutcome(*received[0]["outcome"]).refusal)

    def _listen(self, link: socket, callback: Callable[[], None]) -> None:
        self._callbacks[link] = callback
        if self._loop:
            self._loop.watch(link.fileno(), callback)

    def _forget(self, links: Iterable[socket]) -> None:
        for link in links:
            if self._callbacks.pop(link, None) and self._loop:
                self._loop.forget(link.fileno())

    def _close_links(self, links: list[socket]) -> None:
        self._forget(links)
        for link in links:
            link.close()

    def discard_parked(self) -> None:
        """Kill the interpreters that are parked for the next start."""
        if self.template:
            self._forget([self.template.link])
            self.template.close()
            self.template = None
        if self.pool:
            self._forget(self.pool.links)
            self.pool.close()
            self.pool = None

    def close(self) -> None:
        self.discard_parked()
        self._close_links(list(self._callbacks))


def _is_script(python: str) -> bool:
    """Whether an interpreter is a script: it may start Python with flags that prevent parking."""
    try:
        with open(python, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False  # the start will report the error


def _listed(names: list[str]) -> str:
    shown = [name for name in names if "." not in name] or names
    return (", ".join(shown[:4]) or "nothing yet") + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
