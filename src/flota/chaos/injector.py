"""Injects the faults of `--chaos` into this node's workers and processes."""

from __future__ import annotations

import os
import random
import signal
import time
from binascii import crc32

from flota.chaos.faults import HANG, KILL, NODE, PAUSE, SHEPHERD, Faults, FaultSchedule, verdict_in_words
from flota.job.report import SUCCEEDED, Report
from flota.job.roles import label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.host.round import Round
    from flota.run.node_watch import NodeWatch

PAUSE_SECONDS, NEVER = 5.0, float("inf")
ANY = 2**32  # of a seed that flota chooses


class FaultInjector:
    """`deadline`: when to call `on_time` next; None while no workers run."""

    def __init__(self, node: NodeWatch, faults: Faults) -> None:
        self._node = node
        self._faults = faults
        self._random: random.Random | None = None
        self._schedule: FaultSchedule | None = None
        self._counts: dict[str, int] = {}
        self._hung: Round | None = None  # the round that hangs: it needs no more faults
        self._paused: tuple[float, int, Round] | None = None  # until when which worker of which round is suspended

    def begin_round(self) -> None:
        node, now = self._node, time.monotonic()
        if self._schedule is None or self._random is None:
            roster, seed = node.started.roster, self._choose_seed()
            # A node that replaces another has other faults: otherwise it would be killed after the same time again.
            self._random = random.Random(f"{seed} {node.started.seat} {roster.round}")  # noqa: S311  not a secret
            self._schedule = FaultSchedule(self._faults, self._random.random, now)
            node.console.say("INFO", f"chaos: injecting faults into this job (seed={seed} repeats them)")
        self._schedule.use_nodes(len(node.started.roster.seats), now)

    def _choose_seed(self) -> int:
        """The same on all nodes, whose run id is the same."""
        if self._faults.seed is not None:
            return self._faults.seed
        run_id = self._node.spec.run_id
        return crc32(run_id.encode()) if run_id else random.randrange(ANY)  # noqa: S311  not a secret

    @property
    def deadline(self) -> float | None:
        if self._schedule is None or not self._node.in_round:
            return None
        resumes_at = self._paused[0] if self._paused else self._schedule.deadline
        return min(resumes_at, self._schedule.deadline)

    def on_time(self, now: float) -> None:
        """Called while workers run."""
        if self._paused and now >= self._paused[0]:
            self.resume()
        for kind in self._schedule.take_due(now) if self._schedule else ():
            self._inject(kind)

    def _inject(self, kind: str) -> None:
        node = self._node
        workers = sorted(node.working())
        if self._random is None or not workers or node.round.is_pending or self._hung is node.round:
            return
        number = self._random.choice(workers)
        own = node.started.plans[number].worker
        who = {NODE: "this node", SHEPHERD: "the shepherd process of this node"}.get(kind, label(own.name, own.rank))
        self._counts[kind] = self._counts.get(kind, 0) + 1
        node.console.event("fault_injected", kind=kind, rank=own.rank)
        node.console.say("INFO", f"chaos: {ACTIONS[kind]} {who}")
        if kind == KILL:
            node.round.send("signal", number, signal.SIGKILL)
        elif kind in (HANG, PAUSE):
            node.round.send("suspend", number, signal.SIGSTOP)
            self._hung = node.round if kind == HANG else self._hung
            self._paused = (time.monotonic() + PAUSE_SECONDS if kind == PAUSE else NEVER), number, node.round
        elif kind == SHEPHERD:
            node.round.kill_shepherd()
        else:
            os.kill(os.getpid(), signal.SIGKILL)

    def resume(self) -> None:
        """Let a suspended worker run again: after its pause, or because the round stops and it must exit."""
        if self._paused is None:
            return
        _, number, paused_round = self._paused
        self._paused = None
        if paused_round is self._node.round and number in self._node.supervisor.alive:
            paused_round.send("suspend", number, signal.SIGCONT)

    def verdict(self, report: Report) -> str:
        return verdict_in_words(
            self._counts,
            len(report.restarts),
            report.ledger.get("goodput"),
            succeeded=report.verdict.kind == SUCCEEDED,
            several_nodes=self._node.spec.nodes is not None,
        )


ACTIONS = {KILL: "killing", HANG: "suspending", PAUSE: "pausing", SHEPHERD: "killing", NODE: "killing"}
