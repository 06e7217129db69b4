"""The node of workers that a Python program starts: a separate process between the caller and the shepherd.

The caller is the user's program. Its children, signal handlers and exit must not be affected, and it may be killed at
any time. So a child process supervises the workers, as any node does, and kills them all when the caller is gone. Two
pipes carry messages of one line each: commands from the caller, and reports to it.
"""

import _signal  # type: ignore[import-not-found]
import os
import pickle
import time
from collections.abc import Callable
from functools import partial

from flota.errors import BUG
from flota.host.channel import Channel
from flota.host.process_start import ProcessSpec, continue_when_parent_dies, descriptors_of
from flota.host.round import Round
from flota.host.signals import forget_wakeup
from flota.job.report import Verdict
from flota.job.spec import RestartPolicy
from flota.run.round_watch import RoundWatch
from flota.spawning import worker_process
from flota.supervise.events import Event, StartFailed, StopRequested, WorkerExited, WorkerStarted
from flota.supervise.grace_period import SIGINT, SIGTERM
from flota.supervise.supervisor import Supervisor
from flota.values import NamedTuple


class SpawnRequest(NamedTuple):
    """The workers to start, and how to reach the caller."""

    processes: tuple[ProcessSpec, ...]
    grace: float
    timeout: float | None = None
    result_fds: tuple[int, ...] = ()
    call: Callable[[int], object] | None = None  # for workers that are forks of the caller
    template_fd: int = -1  # the pickled call, if this process imports the script and workers are forks of it
    caller: int = 0  # its pid
    commands: int = -1
    reports: int = -1


def inherited_fds(request: SpawnRequest) -> set[int]:
    """Return all descriptors that the node inherits; workers inherit those that they need."""
    fds = {fd for process in request.processes for fd in descriptors_of(process) if fd > 2}
    return fds | {request.commands, request.reports}


def main(fd: int) -> None:
    """Entry point in a new interpreter. The request is in a file."""
    reset_signals()
    request = pickle.loads(worker_process.read_all(fd))  # noqa: S301  written by our own caller
    os.close(fd)
    for inherited in inherited_fds(request):
        os.set_inheritable(inherited, False)  # noqa: FBT003
    supervise(request)


def supervise(request: SpawnRequest, callers_fds: tuple[int, ...] = ()) -> None:
    """Supervise until the process exits. `callers_fds`: in a fork of the caller, its ends of the pipes."""
    code = BUG
    try:
        if callers_fds:
            leave_caller(callers_fds)
        continue_when_parent_dies()
        if request.template_fd < 0 or import_script(request):
            SpawnSupervisor(request).run()
        code = 0
    finally:
        os._exit(code)


def leave_caller(fds: tuple[int, ...]) -> None:
    """Detach from the caller, in a fork of it: none of its handlers, finalizers or exit functions may run."""
    import gc

    gc.disable()
    forget_wakeup()
    reset_signals()
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    os.setsid()
    for fd in fds:
        os.close(fd)


def reset_signals() -> None:
    """Reset signals: workers would inherit those that the caller blocks or ignores."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    for number in (_signal.SIGTERM, _signal.SIGCHLD):
        _signal.signal(number, _signal.SIG_DFL)


def import_script(request: SpawnRequest) -> bool:
    """Import the script once, before the workers are forked. Returns False on an exception, reported for rank 0."""
    try:
        worker_process.prepare(pickle.loads(worker_process.read_all(request.template_fd)), 0)  # noqa: S301
    except BaseException as error:
        worker_process.write_error(request.result_fds[0], error)
        report(request, f"failure 0 1 exited {0.0}")
        report(request, "ended failed 1")
        return False
    return True


def report(request: SpawnRequest, line: str) -> None:
    try:
        os.write(request.reports, f"{line}\n".encode())
    except OSError:
        pass  # the caller is gone, which its pidfd reports next


def complete(request: SpawnRequest, channel: Channel) -> list[ProcessSpec]:
    """Add what only this process knows: the paths of workers' pages, and the function that forks call."""
    processes = list(request.processes)
    for rank, process in enumerate(processes):
        env = process.env
        if "FLOTA_CHANNEL" in env:  # absent for the node that flota.launch starts
            env = {**env, "FLOTA_CHANNEL": channel.page_path(rank)}
        call = None
        if request.call or request.template_fd >= 0:
            fds = request.template_fd, request.result_fds[rank]
            call = partial(worker_process.run_forked, request.call, *fds, rank, env)
        processes[rank] = process._replace(env=env, call=call)
    return processes


class SpawnSupervisor(RoundWatch):
    def __init__(self, request: SpawnRequest) -> None:
        super().__init__()
        self.request = request
        self.deadline = time.monotonic() + request.timeout if request.timeout is not None else None
        self.unfinished_line = b""
        workers = len(request.processes)
        channel = Channel(workers)
        round_ = Round(complete(request, channel), [], own_session=True)
        self.watch_round(round_, channel, Supervisor(workers, RestartPolicy(), request.grace, time.monotonic()))

    def run(self) -> None:
        self.loop.watch(self.request.commands, self._on_command)
        self._watch_caller()
        while self.in_round:
            self.turn(self.deadline)
            if self.deadline is not None and time.monotonic() >= self.deadline:
                self.deadline = None
                report(self.request, "timeout")
                self.step(StopRequested(SIGTERM))

    def _watch_caller(self) -> None:
        """Watch the caller by its pidfd: a process that it forked may keep the command pipe open."""
        try:
            caller = os.pidfd_open(self.request.caller)
        except (AttributeError, OSError):
            if os.getppid() != self.request.caller:
                self._exit()
            return
        self.loop.watch(caller, self._exit)

    def _exit(self) -> None:
        """Exit. The shepherd detects that, and kills all workers."""
        os._exit(0)

    def _on_command(self) -> None:
        data = os.read(self.request.commands, 4096)
        if not data:
            self._exit()
        *lines, self.unfinished_line = (self.unfinished_line + data).split(b"\n")
        for line in lines:
            if line == b"stop gracefully":
                self.step(StopRequested(SIGTERM, gracefully=self.can_stop_gracefully()))
                continue
            self.step(StopRequested(SIGINT))
            if line == b"kill":
                self.step(StopRequested(SIGINT))  # as a second Ctrl-C

    def step(self, event: Event) -> None:
        if isinstance(event, WorkerStarted):
            report(self.request, f"started {event.worker} {event.pid}")
        elif isinstance(event, WorkerExited):
            report(self.request, f"exited {event.worker} {event.code}")
        elif isinstance(event, StartFailed):
            report(self.request, f"unstarted {event.worker} {event.errno}")
        self.act_on(event)

    def finish(self, verdict: Verdict) -> None:
        for failure in verdict.failures:
            report(self.request, f"failure {failure.worker} {failure.code} {failure.cause} {failure.ran}")
        report(self.request, f"ended {verdict.kind} {verdict.exit_code}")
