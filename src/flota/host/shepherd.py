"""The shepherd: parent of a round's workers, child of the node. Both are subreapers: if one of them dies, the other
inherits the whole tree and kills it.

The shepherd starts the workers, signals them when the node commands it, and reports exits to the node. It makes no
decisions. When the node closes the command pipe, or dies, the shepherd kills all its descendants and exits.

It runs in a fork without exec, so it must close the node's pipe ends: otherwise neither side would see end of file.
"""

from __future__ import annotations

import os
import time
from _collections_abc import Callable, Iterable

from flota.errors import BUG
from flota.host.kill_tree import exited_child, kill, kill_descendants, other_children
from flota.host.process_start import (
    ProcessSpec,
    become_subreaper,
    descriptors_of,
    execute,
    exit_code,
    fork_with_title,
    redirect,
    restore_open_files,
    set_title,
)
from flota.host.signals import Signals, forget_wakeup

EINVAL = 22
TITLE = b"shepherd"  # without the word flota: `pkill flota` must not kill the node and its shepherd at once


def fork_shepherd(
    processes: list[ProcessSpec],
    *,
    own_session: bool,
    on_node_death: Callable[[], object] | None = None,
    close_fds: bool = False,
) -> tuple[int, int, int]:
    """Start the shepherd, which starts the workers. Returns (its pid, command pipe, report pipe).

    `on_node_death` is called in the shepherd if the node dies. `close_fds` closes the node's other descriptors in the
    shepherd: a second shepherd must not keep the pipes of the first open.
    """
    become_subreaper()
    commands, command_end = os.pipe()
    report_end, reports = os.pipe()
    under_init = os.getpid() == 1  # checked in the node: an orphan's parent is 1 as well
    pid, title = fork_with_title(TITLE)
    if pid == 0:

        def prepared() -> Shepherd:
            forget_wakeup()
            other_children.clear()  # they are children of the node
            os.close(command_end)
            os.close(report_end)
            if on_node_death or close_fds:
                close_other_fds({commands, reports, *(fd for process in processes for fd in descriptors_of(process))})
            restore_open_files()
            return Shepherd(processes, commands, reports, title, own_session=own_session, on_node_death=on_node_death)

        run_to_end(prepared, under_init=under_init)
    os.close(commands)
    os.close(reports)
    if processes:  # the kernel starts the shepherd on our CPU: unless we wait, it runs only 3 ms later
        import select  # both sides import it after the workers have started

        poll = select.poll()
        poll.register(report_end, select.POLLIN)
        poll.poll(5)
    return pid, command_end, report_end


class WorkerForked(BaseException):
    """Raised, with the ProcessSpec, in a worker that was forked from a template: unwinds the shepherd's stack."""


def run_to_end(prepared: Callable[[], Shepherd], *, under_init: bool) -> None:
    """Run the shepherd until the process exits. Whatever happens, all its descendants are killed first."""
    code = BUG
    try:
        prepared().run()
        code = 0
    except WorkerForked:
        raise
    except BaseException:  # a bug in flota; the exit code reports it to the node
        import traceback

        traceback.print_exc()
    try:
        kill_descendants(under_init=under_init)
    finally:
        os._exit(code)  # the node's exit handlers must not run here


class Shepherd:
    """The shepherd's state and loop; see the module's docstring."""

    def __init__(
        self,
        processes: list[ProcessSpec],
        commands: int,
        reports: int,
        worker_title: tuple[bytes, bytes],
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
        self.worker_title = worker_title  # for workers that are forks

    def run(self) -> None:
        if self.own_session:
            os.setsid()
        become_subreaper()
        self._start_all()
        for fd in {fd for process in self.processes for fd in process.inherited_fds}:
            os.close(fd)  # with this copy open, the other side would not see the worker close its own
        import select

        signals = Signals(("SIGCHLD",))
        poll = select.poll()
        poll.register(self.commands, select.POLLIN)
        poll.register(signals.fd, select.POLLIN)
        rest = b""
        while True:
            # Reap before commands are performed: a worker that exited before a stop command exited on its own.
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
                    if line.startswith(b"end "):
                        return  # without waiting for end of file: a fork of the node may hold a copy of the pipe
                    self._perform(line)

    def _start_all(self) -> None:
        is_bound = any(process.cpus for process in self.processes)
        own_cpus = os.sched_getaffinity(0) if is_bound else ()
        for number, process in enumerate(self.processes):
            self._start(number, process)
        if is_bound:
            _bind(own_cpus, -1)

    def _start(self, number: int, process: ProcessSpec) -> None:
        try:
            if process.cpus:
                _bind(process.cpus, process.memory_node)  # the shepherd itself: the worker inherits it
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
            set_title(*self.worker_title)
            if self.own_session:
                os.setsid()
            os.close(self.commands)
            os.close(self.reports)
            redirect(process)
            assert process.call
            code = process.call()
        except BaseException:  # the shepherd's code must not run in the worker
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def _reap(self) -> None:
        while pid := exited_child():
            number = self.worker_of.pop(pid, None)
            if number is not None:
                # Kill the group before reaping: the zombie keeps its pid from being reused.
                kill(-pid)
            _, status = os.waitpid(pid, 0)
            if number is not None:
                del self.pid_of[number]
                code = exit_code(status)
                write_line(self.reports, f"exited {number} {code} {int(number in self.asked)} {time.monotonic()}")

    def _perform(self, line: bytes) -> None:
        command, number, signal_number = line.decode().split()
        pid = self.pid_of.get(int(number))
        if pid is None:
            return
        if command in ("stop", "kill"):
            self.asked.add(int(number))
        kill(pid, int(signal_number))
        if command in ("kill", "suspend"):
            kill(-pid, int(signal_number))


def _bind(cpus: Iterable[int], memory_node: int) -> None:
    from flota.host.affinity import bind

    bind(cpus, memory_node)


def write_line(pipe: int, line: str) -> None:
    try:
        os.write(pipe, f"{line}\n".encode())
    except OSError:
        pass  # the other side is dead; the end of file on its pipe reports that


def close_other_fds(needed: set[int]) -> None:
    """Close descriptors inherited from the node: a connection ends only when its last copy is closed.

    Inheritable descriptors stay open: they are for the workers.
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
            pass  # the descriptor that listed the directory
