"""The processes of one round, seen from the node: sends commands to the shepherd and turns its reports into events."""

from __future__ import annotations

import os
import time

from flota.errors import BUG
from flota.host.kill_tree import exited_child, has_exited, kill, kill_descendants, stat_fields
from flota.host.ports import release
from flota.host.process_start import SIGCONT, ProcessSpec, exit_code
from flota.host.shepherd import fork_shepherd, write_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable

    from flota.supervise.events import Event

    Shepherd = tuple[int, int, int]  # its pid, or 0 while unknown; the command pipe; the report pipe

KILL_PATIENCE = 2.0  # seconds for the shepherd to kill workers, before the node checks whether it can run at all


class Round:
    """`fd` becomes readable when the shepherd has sent a report. If a `warm` start fails, `read` starts the round cold
    and replaces `fd`.

    `on_node_death` is called in the shepherd if the node dies. `when_started` is called when the descriptors in
    `processes` are no longer needed. `check_shepherd` must be called at the `deadline`.
    """

    def __init__(
        self,
        processes: list[ProcessSpec],
        held: list[socket],
        *,
        own_session: bool,
        on_node_death: Callable[[], object] | None = None,
        warm: Callable[[], Shepherd] | None = None,
        when_started: Callable[[], object] = tuple,
    ) -> None:
        self._held = held
        self._rest = b""
        self._ending = False
        self.lost_shepherd = False
        self._code = 0  # the exit code of a shepherd that died before the end of file
        self.deadline: float | None = None
        self._began = time.monotonic()
        self._workers = len(processes)
        self._stop_signal = 0  # set if the round is asked to stop before it has started
        self._start_cold: Callable[[], Shepherd] = lambda: fork_shepherd(
            processes, own_session=own_session, on_node_death=on_node_death
        )
        # A shepherd that is not our fork cannot call `on_node_death`: a second one, without workers, does.
        second = warm is not None and on_node_death is not None
        self._second_shepherd = fork_shepherd([], own_session=True, on_node_death=on_node_death) if second else None
        self._when_started = when_started
        self._shepherd, self._commands, self.fd = warm() if warm else self._start_cold()
        if self._shepherd:
            when_started()

    def send(self, command: str, worker: int, signal: int) -> None:
        """Have the shepherd send a signal to a worker.

        `stop` asks the worker to exit; `kill` does so and includes its process group; `signal` does not ask it to exit;
        `suspend` does not either, and includes its process group.
        """
        if self.is_pending and command in ("stop", "kill"):
            self._stop_signal = signal
        write_line(self._commands, f"{command} {worker} {signal}")
        self._continue_shepherd()
        if command == "kill":
            self.deadline = time.monotonic() + KILL_PATIENCE

    def _continue_shepherd(self) -> None:
        """It must perform the command even if a user has stopped it."""
        if self._shepherd and not self.lost_shepherd:
            kill(self._shepherd, SIGCONT)

    def kill_shepherd(self) -> None:
        """For `--chaos`: as if something else had killed it."""
        if self._shepherd and not self.lost_shepherd:
            kill(self._shepherd)

    def check_shepherd(self, now: float) -> None:
        """Kill a shepherd that should have killed workers, and is stopped or blocked in the kernel. The node inherits
        its descendants, and kills them.

        It does not wait for the end of file: a worker that was stopped before its exec keeps the report pipe open."""
        if self.deadline is None or now < self.deadline:
            return
        self.deadline = now + KILL_PATIENCE
        if not self._shepherd or self.lost_shepherd:
            return
        if has_exited(self._shepherd):
            self._code = self._code or _wait(self._shepherd)
            kill_descendants()
        elif stat_fields(self._shepherd)[:1] in (["T"], ["t"], ["D"]):
            kill(self._shepherd)

    @property
    def is_pending(self) -> bool:
        """Whether a warm start has not started its shepherd yet."""
        return not self._shepherd and not self.lost_shepherd

    def kill_remaining(self) -> None:
        """Kill all remaining processes of the round; `read` returns RoundSwept when they are gone."""
        if self.lost_shepherd:
            kill_descendants()  # we have inherited the shepherd's descendants
        else:
            self._ending = True
            # `end` tells the shepherd that the end of file is not the node's death.
            write_line(self._commands, "end 0 0")
            os.close(self._commands)
            self._continue_shepherd()
            self.deadline = time.monotonic() + KILL_PATIENCE

    def reap_orphans(self) -> None:
        """Reap orphans, which a node inherits if it is PID 1 or its shepherd died."""
        # A shepherd's exit is detected on its report pipe, or by `check_shepherd`.
        shepherds = self._shepherd, self._second_shepherd[0] if self._second_shepherd else 0
        while (pid := exited_child()) and pid not in shepherds:
            os.waitpid(pid, 0)
        if pid and pid == self._shepherd and self.deadline is None:
            self.deadline = time.monotonic() + KILL_PATIENCE

    def read(self) -> list[Event]:
        """Return the events since the last call."""
        from flota.supervise.events import RoundSwept, ShepherdLost

        data = os.read(self.fd, 65536)
        if data:
            *lines, self._rest = (self._rest + data).split(b"\n")
            return [event for line in lines if (event := self._event(line))]
        if self.is_pending and not self._ending:
            return self._start_cold_instead()
        if self.lost_shepherd or self._ending:
            self._close()
            return [RoundSwept()]
        os.close(self._commands)
        self.lost_shepherd = True
        return [ShepherdLost(self._code or _wait(self._shepherd), time.monotonic())]

    def _start_cold_instead(self) -> list[Event]:
        """Start cold after a failed warm start, unless the round was asked to stop."""
        from flota.supervise.events import WorkerExited

        if self._stop_signal:
            self._when_started()
            os.close(self._commands)
            self.lost_shepherd = True
            now = time.monotonic()
            return [WorkerExited(worker, -self._stop_signal, True, now) for worker in range(self._workers)]  # noqa: FBT003
        self._end_second_shepherd()
        before = self._commands, self.fd
        self._shepherd, self._commands, self.fd = self._start_cold()
        self._when_started()
        for fd in before:  # closed last: the new descriptors must have other numbers
            os.close(fd)
        return []

    def _end_second_shepherd(self) -> None:
        if self._second_shepherd:
            pid, *pipes = self._second_shepherd
            kill(pid)  # it has no workers
            _wait(pid)
            for fd in pipes:
                os.close(fd)
            self._second_shepherd = None

    def _close(self) -> None:
        if self._ending and self._shepherd and _wait(self._shepherd) != 0:
            kill_descendants()  # it died before it had killed all descendants
        self._end_second_shepherd()
        os.close(self.fd)
        release(self._held)

    def _event(self, line: bytes) -> Event | None:
        from flota.supervise.events import StartFailed, WorkerExited, WorkerStarted

        report, *numbers = line.decode().split()
        if report == "shepherd":
            if self.is_pending:  # its parent reports it as well: it may have been stopped
                self._shepherd = int(numbers[0])
                self._when_started()
                if self._stop_signal:
                    self._continue_shepherd()
            return None
        at = max(float(numbers[-1]), self._began)  # a standby interpreter was started earlier
        if report == "started":
            return WorkerStarted(int(numbers[0]), int(numbers[1]), at)
        if report == "failed":
            return StartFailed(int(numbers[0]), int(numbers[1]), at)
        return WorkerExited(int(numbers[0]), int(numbers[1]), numbers[2] == "1", at)


def _wait(pid: int) -> int:
    try:
        return exit_code(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return BUG  # it exited before its pid was known, and was reaped as an orphan
