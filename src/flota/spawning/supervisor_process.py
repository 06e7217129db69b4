"""The node of workers that a program has started: a process of its own, between the program and the shepherd.

The program is somebody else's. Its children, its signal handlers and its exit are not to be touched, and it may be
killed at any moment. So it has one child more, this one, which supervises the workers as any node does, ends them all
when the program is gone, and is told and heard through two pipes, one line a message.
"""

from __future__ import annotations

import os
import pickle
import time

from flota.errors import BUG
from flota.host.channel import Channel
from flota.host.process_start import ProcessSpec
from flota.host.round import Round
from flota.host.signals import forget_wakeup
from flota.job.report import Verdict
from flota.job.spec import RestartPolicy
from flota.run.round_watch import RoundWatch
from flota.spawning import worker_process
from flota.supervise.events import Event, StartFailed, StopRequested, WorkerExited, WorkerStarted
from flota.supervise.supervisor import SIGINT, SIGTERM, Supervisor
from flota.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Orders(NamedTuple):
    """What a node is to do, and the descriptors through which it speaks with its program."""

    spawns: tuple[ProcessSpec, ...]
    grace: float
    timeout: float | None
    program: int = 0  # its pid
    commands: int = -1
    reports: int = -1
    inherited: tuple[int, ...] = ()  # every descriptor that came through exec; workers get those that they need
    call: Callable[[int], object] | None = None  # what workers do that are forks of the program
    template: int = -1  # the parcel, where workers are forks of an interpreter that has imported the script
    results: tuple[int, ...] = ()


def main(fd: int) -> None:
    """As a program of its own: the orders are in a file."""
    orders = pickle.loads(worker_process.read_all(fd))  # noqa: S301  written by our own parent
    os.close(fd)
    for inherited in orders.inherited:
        os.set_inheritable(inherited, False)  # noqa: FBT003
    code = BUG
    try:
        if orders.template < 0 or import_script(orders):
            SpawnSupervisor(orders).run()
        code = 0
    finally:
        os._exit(code)


def import_script(orders: Orders) -> bool:
    """Be the template of the workers: what the script imports is imported once. What it raises is rank 0's failure."""
    try:
        worker_process.import_main(orders.template)
    except BaseException as error:
        worker_process.leave_error(orders.results[0], error)
        _say(orders.reports, f"failure 0 1 exited {0.0}")
        _say(orders.reports, "ended failed 1")
        return False
    return True


def complete(orders: Orders, channel: Channel) -> list[ProcessSpec]:
    """What only this process can say: how workers find their pages, and what forks do."""
    spawns = [with_page(spawn, channel.page_path(rank)) for rank, spawn in enumerate(orders.spawns)]
    if orders.call is None and orders.template < 0:
        return spawns
    return [
        spawn._replace(call=forked(orders.call, orders.template, result, rank, spawn.env))
        for rank, (spawn, result) in enumerate(zip(spawns, orders.results, strict=True))
    ]


def with_page(spawn: ProcessSpec, page: str) -> ProcessSpec:
    """The node of a job, which flota.launch starts, is none of its workers."""
    if not page or "FLOTA_GIVEN" not in spawn.env:
        return spawn
    given = f"{spawn.env['FLOTA_GIVEN']},FLOTA_CHANNEL"
    return spawn._replace(env={**spawn.env, "FLOTA_GIVEN": given, "FLOTA_CHANNEL": page})


def forked(
    call: Callable[[int], object] | None, parcel: int, result: int, rank: int, env: dict[str, str]
) -> Callable[[], int]:
    return lambda: worker_process.run_forked(call, parcel, result, rank, env)


def tend_fork(orders: Orders, foreign: list[int]) -> None:
    """As a fork of the program. Nothing of the program's may run here: no handler, no finalizer, no exit."""
    import _signal  # type: ignore[import-not-found]
    import gc

    code = BUG
    try:
        gc.disable()
        forget_wakeup()
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        for number in (_signal.SIGTERM, _signal.SIGCHLD):
            _signal.signal(number, _signal.SIG_DFL)
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        os.setsid()
        for fd in foreign:
            os.close(fd)
        SpawnSupervisor(orders).run()
        code = 0
    finally:
        os._exit(code)


class SpawnSupervisor(RoundWatch):
    def __init__(self, orders: Orders) -> None:
        super().__init__()
        self.orders = orders
        self.deadline = time.monotonic() + orders.timeout if orders.timeout is not None else None
        workers = len(orders.spawns)
        channel = Channel(workers)
        round_ = Round(complete(orders, channel), [], own_session=True)
        self.watch_round(round_, channel, Supervisor(workers, RestartPolicy(), orders.grace, time.monotonic()))
        self.rest = b""

    def run(self) -> None:
        self.loop.watch(self.orders.commands, self._on_command)
        self._watch_program()
        while self.in_round:
            self.turn(self.deadline)
            if self.deadline is not None and time.monotonic() >= self.deadline:
                self.deadline = None
                self.say("timeout")
                self.step(StopRequested(SIGTERM))

    def _watch_program(self) -> None:
        """The pipe's end may live on in a process that the program has forked; the program itself tells the truth."""
        try:
            program = os.pidfd_open(self.orders.program)
        except (AttributeError, OSError):
            if os.getppid() != self.orders.program:
                self._leave()
            return
        self.loop.watch(program, self._leave)

    def _leave(self) -> None:
        """Without a word: the shepherd takes this process's end for what it is, and ends everybody at once."""
        os._exit(0)

    def _on_command(self) -> None:
        data = os.read(self.orders.commands, 4096)
        if not data:
            self._leave()
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            if line == b"yield":
                self.step(StopRequested(SIGTERM, gently=self.can_stop_gracefully()))
                continue
            self.step(StopRequested(SIGINT))
            if line == b"kill":
                self.step(StopRequested(SIGINT))  # as a second Ctrl-C

    def step(self, event: Event) -> None:
        if isinstance(event, WorkerStarted):
            self.say(f"started {event.worker} {event.pid}")
        elif isinstance(event, WorkerExited):
            self.say(f"exited {event.worker} {event.code}")
        elif isinstance(event, StartFailed):
            self.say(f"unstarted {event.worker} {event.errno}")
        self.act_on(event)

    def finish(self, verdict: Verdict) -> None:
        for failure in verdict.failures:
            self.say(f"failure {failure.worker} {failure.code} {failure.cause} {failure.ran}")
        self.say(f"ended {verdict.kind} {verdict.exit_code}")

    def say(self, line: str) -> None:
        _say(self.orders.reports, line)


def _say(reports: int, line: str) -> None:
    try:
        os.write(reports, f"{line}\n".encode())
    except OSError:
        pass  # the program is gone, which its pipe says next
