"""The shepherd: parent of a round's workers, child of the node. Both are subreapers, so whichever of the two dies, in
any way, the other inherits the whole tree and kills it.

It starts the workers, signals them on the node's command, and reports exits to the node. It decides nothing. It exits
when the node closes the command pipe (or dies, which closes it as well), and kills every descendant first.

Runs in a fork without exec: it must close the node's pipe ends, or neither would see the other's end of file.
"""

from __future__ import annotations

import os
import select
import time
from _collections_abc import Callable

from flota.errors import BUG
from flota.host.kill_tree import exited_child, kill, kill_descendants
from flota.host.process_start import (
    ProcessSpec,
    become_subreaper,
    descriptors_of,
    execute,
    exit_code,
    name_process,
    redirect,
    restore_open_files,
)
from flota.host.signals import Signals, forget_wakeup

EINVAL = 22


def fork_shepherd(
    processes: list[ProcessSpec],
    *,
    own_session: bool,
    on_node_death: Callable[[], object] | None = None,
    close_fds: bool = False,
) -> tuple[int, int, int]:
    """Start the shepherd and, through it, the workers: (its pid, command pipe, report pipe).

    `on_node_death` is called in the shepherd if the node dies. `close_fds`: close the node's other descriptors there;
    a second shepherd must not hold the pipes of the first.
    """
    become_subreaper()
    commands, command_end = os.pipe()
    report_end, reports = os.pipe()
    under_init = os.getpid() == 1  # asked of the node itself: every orphan's parent is 1
    pid = os.fork()
    if pid == 0:

        def prepared() -> Shepherd:
            forget_wakeup()
            os.close(command_end)
            os.close(report_end)
            if on_node_death or close_fds:
                close_other_fds({commands, reports, *(fd for process in processes for fd in descriptors_of(process))})
            restore_open_files()
            return Shepherd(processes, commands, reports, own_session=own_session, on_node_death=on_node_death)

        run_to_end(prepared, under_init=under_init)
    os.close(commands)
    os.close(reports)
    if processes:  # the kernel starts the shepherd on our processor: without a pause it waits 3 ms for its turn
        poll = select.poll()
        poll.register(report_end, select.POLLIN)
        poll.poll(5)
    return pid, command_end, report_end


class WorkerForked(BaseException):
    """Raised in a new worker, with its spec, if it is a fork of a template: leaves all that the shepherd was doing."""


def run_to_end(prepared: Callable[[], Shepherd], *, under_init: bool) -> None:
    """The shepherd's whole process: it ends here, whatever happens, with all of its descendants."""
    code = BUG
    try:
        prepared().run()
        code = 0
    except WorkerForked:
        raise
    except BaseException:  # a bug of ours; the exit code reports it to the node
        import traceback

        traceback.print_exc()
    try:
        kill_descendants(under_init=under_init)
    finally:
        os._exit(code)  # the node's own exit handlers never run here


class Shepherd:
    """Runs in a process of its own; see the module's docstring."""

    def __init__(
        self,
        processes: list[ProcessSpec],
        commands: int,
        reports: int,
        *,
        own_session: bool,
        on_node_death: Callable[[], object] | None = None,
    ) -> None:
        self.commands = commands
        self.reports = reports
        self.own_session = own_session
        self.processes = processes
        self.worker_of: dict[int, int] = {}
        self.pid_of: dict[int, int] = {}
        self.asked: set[int] = set()
        self.on_node_death = on_node_death

    def run(self) -> None:
        if self.own_session:
            os.setsid()
        become_subreaper()
        for number, process in enumerate(self.processes):
            self._start(number, process)
        for fd in {fd for process in self.processes for fd in process.inherited_fds}:
            os.close(fd)  # with a copy open here, the other side would not see the worker close it
        signals = Signals(("SIGCHLD",))
        name_process("flota-shepherd")
        poll = select.poll()
        poll.register(self.commands, select.POLLIN)
        poll.register(signals.fd, select.POLLIN)
        rest = b""
        while True:
            # Reaped before commands are performed: a worker that exited before it was asked to stop exited on its own.
            self._reap()
            for fd, _ in poll.poll():
                if fd == signals.fd:
                    signals.read()
                    continue
                data = os.read(self.commands, 4096)
                if not data:
                    if self.on_node_death:
                        self.on_node_death()
                    return
                self._reap()
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._perform(line)

    def _start(self, number: int, process: ProcessSpec) -> None:
        try:
            pid = self._fork(process) if process.call else self.execute(process)
        except (OSError, ValueError) as error:
            code = error.errno if isinstance(error, OSError) else EINVAL
            write_line(self.reports, f"failed {number} {code} {time.monotonic()}")
            return
        self.worker_of[pid] = number
        self.pid_of[number] = pid
        write_line(self.reports, f"started {number} {pid} {time.monotonic()}")

    def execute(self, process: ProcessSpec) -> int:
        return execute(process, own_session=self.own_session)

    def _fork(self, process: ProcessSpec) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = BUG
        try:
            if self.own_session:
                os.setsid()
            os.close(self.commands)
            os.close(self.reports)
            redirect(process)
            assert process.call
            code = process.call()
        except BaseException:  # the shepherd's own code must never run here
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def _reap(self) -> None:
        while pid := exited_child():
            number = self.worker_of.pop(pid, None)
            if number is not None:
                # Left unreaped until its group is killed: the zombie keeps the group's number from being reused.
                kill(-pid)
            _, status = os.waitpid(pid, 0)
            if number is not None:
                del self.pid_of[number]
                code = exit_code(status)
                write_line(self.reports, f"exited {number} {code} {int(number in self.asked)} {time.monotonic()}")

    def _perform(self, line: bytes) -> None:
        command, number, signal_number = line.decode().split()
        if command == "end":
            self.on_node_death = None
            return
        pid = self.pid_of.get(int(number))
        if pid is None:
            return
        if command in ("stop", "kill"):
            self.asked.add(int(number))
        kill(pid, int(signal_number))
        if command in ("kill", "suspend"):
            kill(-pid, int(signal_number))


def write_line(pipe: int, line: str) -> None:
    try:
        os.write(pipe, f"{line}\n".encode())
    except OSError:
        pass  # the other side is dead, and the pipe that comes from there has ended


def close_other_fds(needed: set[int]) -> None:
    """A connection ends for the other side only when its last copy is closed: ours must not outlive the node.

    Inheritable descriptors stay open: they are meant for the workers.
    """
    try:
        opened = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        opened = list(range(min(os.sysconf("SC_OPEN_MAX"), 1 << 16)))
    for fd in opened:
        try:
            if fd > 2 and fd not in needed and not os.get_inheritable(fd):
                os.close(fd)
        except OSError:
            pass  # the descriptor of the listing itself
