"""The program of a parked interpreter: it imports modules, slowly while the CPUs are busy, waits, and becomes a worker
or forks workers. No process that an import starts outlives the node.
Runs in workers' interpreters: Python 3.8."""

from __future__ import annotations

import gc
import os
import resource
import select
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

from flota.host.kill_tree import children_of, descendants_of, kill, stat_fields
from flota.host.process_start import (
    ProcessSpec,
    become_subreaper,
    die_with_parent,
    fork_with_title,
    redirect,
    set_title,
)
from flota.host.shepherd import TITLE, Shepherd, WorkerForked, run_to_end, write_line
from flota.standby.import_effects import BLAS_THREADS, ImportEffects
from flota.standby.modules_to_import import ModulesToImport
from flota.standby.parked_protocol import receive, send, unpack
from flota.standby.record_imports import record_imports
from flota.standby.strategy import NEVER_FORKED, ImportOutcome, first_never_forked

SIGSTOP = 19
LARGEST_OUTPUT = 1 << 20  # bytes of the imports' output that workers repeat


class ParkedInterpreter:
    def __init__(self, link: int) -> None:
        self.link = socket.socket(fileno=link)
        self.outcome = ImportOutcome()
        self.effects = ImportEffects()
        self.memory_limit = resource.getrlimit(resource.RLIMIT_DATA)  # the original limit

    def serve(self) -> None:
        """Handle requests. Returns when this process has become a worker and must run the script."""
        while True:
            received = receive(self.link)
            if received is None:
                os._exit(0)
            request, fds = received
            if request["do"] == "import":
                self._import(request)
            elif request["do"] == "fork":
                if self._fork(request, fds):
                    return
            else:
                self._run(request, fds)
                return

    def _import(self, request: dict[str, Any]) -> None:
        began = time.monotonic()
        modules, forks = ModulesToImport(request), request["limit"] is None
        if forks:
            for given in request["open_files"]:  # the limit that the node had before it raised its own
                resource.setrlimit(resource.RLIMIT_NOFILE, tuple(given))
            self.outcome = ImportOutcome(never_forked=first_never_forked(modules.required))
        else:
            limit, hard = request["limit"], self.memory_limit[1]
            allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
        if not self.outcome.unforkable:
            self._watch_imports(modules, request["varying"], request["share"], forks=forks)
        if forks:
            die_with_parent(request["node"])
        self._report(seconds=time.monotonic() - began, names=modules.required)

    def _watch_imports(self, modules: ModulesToImport, varying: list[str], share: float, *, forks: bool) -> None:
        def check_fork() -> None:
            """Report as soon as forking is impossible: the workers wait for these imports."""
            self.outcome = ImportOutcome(
                never_forked=next((name for name in NEVER_FORKED if name in sys.modules), ""),
                changed_variable=self.effects.first_read(varying),
            )
            if self.outcome.unforkable:
                self._report()
                while True:
                    time.sleep(60)  # until the node closes the link, and the guard kills this process

        finders = [SlowDown(self._has_request, share), *([OnEachImport(check_fork)] if forks else [])]
        with self.effects.watch(forks=forks), guarded(self.link) if forks else nullcontext():
            failed = run_imports(modules, finders)
        self.outcome = ImportOutcome(
            failed=failed,
            changed_variable=self.effects.first_read(varying),
            never_forked=first_never_forked(list(sys.modules)),
            threads=len(os.listdir("/proc/self/task")),
            opened=next(iter(self.effects.opened), ""),
            children=bool(children_of(os.getpid())),
            random=self.effects.random.why_unforkable() if forks else "",
        )

    def _report(self, **more: object) -> None:
        send(self.link, {"outcome": [*self.outcome], "memory": _memory(), **more})

    def _has_request(self) -> bool:
        return bool(select.select([self.link], [], [], 0)[0])

    def _unpack(self, request: dict[str, Any], fds: list[int]) -> list[ProcessSpec]:
        """Return the workers to start. Records in the outcome which file or variable changed since the imports."""
        processes = unpack(request["processes"], fds)
        variable = next((name for process in processes if (name := self.effects.changed_variable(process.env))), "")
        self.outcome = self.outcome._replace(changed_file=self.effects.changed_file(), changed_variable=variable)
        return processes

    def _fork(self, request: dict[str, Any], fds: list[int]) -> bool:
        """Fork the workers. Returns True in each of them, False in the template."""
        processes = self._unpack(request, fds)
        process = None
        if self.outcome.unforkable:
            self._report()
        else:
            gc.freeze()  # the collector would write to pages that are shared with all workers
            process = fork_workers(processes, fds[0], fds[1], self.link, under_init=request["under_init"])
        if process is None:
            for fd in fds:  # if nothing was started, this closes the pipes, which the node notices
                os.close(fd)
            return False
        become_worker(process, fds, self.effects, forked=True, records=request["records"])
        return True

    def _run(self, request: dict[str, Any], fds: list[int]) -> None:
        (process,) = self._unpack(request, fds)
        resource.setrlimit(resource.RLIMIT_DATA, self.memory_limit)
        if self.outcome.refusal:
            self._report(refused=True)
            start_cold(process)
        self.link.close()
        become_worker(process, fds, self.effects, forked=False, records=request["records"])


def _memory() -> int:
    """Return the proportional set size of this process in bytes."""
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))


def become_worker(
    process: ProcessSpec, fds: Iterable[int], effects: ImportEffects, *, forked: bool, records: bool
) -> None:
    """Put this process into the state of a cold start. When this returns, Python runs the script. On any error the
    worker starts cold instead."""
    try:
        is_one_stream = os.path.samestat(os.fstat(1), os.fstat(2))
        printed = {stream: os.pread(stream, LARGEST_OUTPUT, 0) for stream in ((1,) if is_one_stream else (1, 2))}
        redirect(process)
        os.environ.clear()
        os.environ.update(effects.environ(process.env))
        _set_arguments(process.argv)
        if forked:
            effects.random.reseed()
            _set_blas_threads()
        for stream, output in printed.items():
            os.write(stream, output)
        if records:
            record_imports(process.env.get("FLOTA_CHANNEL", ""))
        for fd in fds:
            os.close(fd)
    except Exception as error:
        start_cold(process, f"flota: this worker starts cold: {type(error).__name__}: {error}\n")


def start_cold(process: ProcessSpec, reason: str = "") -> None:
    redirect(process)
    os.write(2, reason.encode())
    os.execve(process.argv[0], process.argv, process.env)


def _set_arguments(argv: tuple[str, ...]) -> None:
    """Set `sys.argv`. All workers run the same script, but its arguments may contain a rank."""
    sys.argv[1:] = argv[4 if argv[2] == "-m" else 3 :]  # python -u -m train …, or python -u train.py …
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = argv


def _set_blas_threads() -> None:
    """Give OpenBLAS its default number of threads: it was limited to one during the imports."""
    given = [os.environ.get(name, "") for name in (*BLAS_THREADS, "OMP_NUM_THREADS")]
    threads = next((int(number) for number in given if number.isdigit()), len(os.sched_getaffinity(0)))
    if threads <= 1:
        return
    import ctypes

    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if "openblas" in line}
    for path in paths:
        library = ctypes.CDLL(path)
        for name in ("openblas_set_num_threads", "scipy_openblas_set_num_threads"):
            for suffix in ("", "64_"):
                set_threads = getattr(library, name + suffix, None)
                if set_threads is not None:
                    set_threads(threads)


class ForkShepherd(Shepherd):
    """The shepherd of forked workers: itself a fork of the template, and a child of the node."""

    def execute(self, process: ProcessSpec) -> int:
        if pid := os.fork():
            return pid
        set_title(*self.worker_title)
        raise WorkerForked(process)


def fork_workers(
    processes: list[ProcessSpec], commands: int, reports: int, link: socket.socket, *, under_init: bool
) -> ProcessSpec | None:
    """Fork a shepherd, which forks the workers. Returns None in the template, and in each worker its ProcessSpec.

    Only the template keeps `link` open, so that the link closes when the template exits.
    """
    if between := os.fork():
        os.waitpid(between, 0)
        return None
    pid, title = fork_with_title(TITLE)
    if pid:
        # The node must know the pid even of a shepherd that was stopped before it can report anything.
        write_line(reports, f"shepherd {pid}")
        os._exit(0)  # the node, a subreaper, becomes the shepherd's parent

    def prepared() -> ForkShepherd:
        link.close()
        write_line(reports, f"shepherd {os.getpid()}")  # before any other report; the node ignores the second one
        return ForkShepherd(processes, commands, reports, title, own_session=True)

    try:
        run_to_end(prepared, under_init=under_init)
    except WorkerForked as worker:
        os.setsid()
        (process,) = worker.args
        return process  # type: ignore[no-any-return]
    return None  # unreachable: the shepherd has exited


def run_imports(modules: ModulesToImport, finders: list[Any]) -> str:
    """Import the modules, with these finders first. Returns why a required one failed; empty if none did."""
    main = sys.modules["__main__"]
    if not modules.is_module:
        main.__file__ = modules.script  # for modules that check whether they run in a shell
    folders = [modules.folder] if modules.folder else []
    sys.path[:0] = folders
    sys.meta_path[:0] = finders
    try:
        for name in (*modules.required, *modules.optional):
            try:
                import_module(name)
            except BaseException as error:  # a module may raise anything, including SystemExit
                if name in modules.required:
                    return f"cannot import `{name}`: {type(error).__name__}: {error}"
        return ""
    finally:
        sys.path[:] = [folder for folder in sys.path if folder not in folders]
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in finders]
        vars(main).pop("__file__", None)


class SlowDown:
    """The first finder on `sys.meta_path`. It finds no module, but sleeps while all CPUs are busy.

    A low priority would be simpler, but the worker would keep it: raising it again needs a privilege.
    """

    def __init__(self, is_urgent: Callable[[], bool], share: float) -> None:
        self._is_urgent, self._share = is_urgent, share
        self._used = time.process_time()

    def find_spec(self, *_: object) -> None:
        used = time.process_time()
        until = time.monotonic() + (used - self._used) * (1 / self._share - 1)
        self._used = used
        while (owed := until - time.monotonic()) > 0 and not self._is_urgent() and is_busy():
            time.sleep(min(0.1, owed))


class OnEachImport:
    """A finder that finds no module, but calls a function before each import."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def find_spec(self, *_: object) -> None:
        self._call()


def is_busy() -> bool:
    """Whether there are more runnable processes than CPUs."""
    with open("/proc/loadavg") as file:
        running = int(file.read().split()[3].partition("/")[0])
    return running > len(os.sched_getaffinity(0))


@contextmanager
def guarded(link: socket.socket) -> Iterator[None]:
    """Inside this context, this process and all its descendants, in any session, are killed when `link` closes.

    A fork template has no shepherd, and does not read the link during imports: a child process watches it.
    """
    become_subreaper()
    parent = os.getpid()
    guard, _ = fork_with_title(b"guard")
    if guard == 0:
        try:
            die_with_parent(parent)  # otherwise this copy of the link would hide the parent's death
            poll = select.poll()
            poll.register(link, 0)
            poll.poll()
            _kill_template(parent)
        finally:
            os._exit(0)
    try:
        yield
    finally:
        kill(guard)
        try:
            os.waitpid(guard, 0)
        except ChildProcessError:
            pass  # an import set SIGCHLD to SIG_IGN
        become_subreaper(now=False)  # the shepherds that it forks must become children of the node


def _kill_template(parent: int) -> None:
    os.kill(parent, SIGSTOP)  # so that it starts no process, and remains the parent of its children
    while others := [pid for pid in descendants_of(parent) if pid != os.getpid() and not _is_dead(pid)]:
        for pid in others:
            kill(pid)
        time.sleep(0.0005)
    kill(parent)


def _is_dead(pid: int) -> bool:
    """Whether a process is dead: while its parent is stopped, it stays listed as a zombie."""
    return stat_fields(pid)[:1] in ([], ["Z"], ["X"])
