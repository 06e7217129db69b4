"""What a parked interpreter does: it imports, slowly while the CPUs have other work, waits, and becomes a worker or
forks workers. Nothing that an import starts outlives the node.
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

from flota.host.channel import record_imports
from flota.host.kill_tree import children_of, descendants_of, kill, stat_fields
from flota.host.process_start import ProcessSpec, become_subreaper, die_with_parent, name_process, redirect
from flota.host.shepherd import Shepherd, WorkerForked, run_to_end
from flota.standby.import_effects import BLAS_THREADS, ImportEffects
from flota.standby.modules_to_import import ModulesToImport
from flota.standby.parked_protocol import receive, send, unpack
from flota.standby.strategy import ImportOutcome, first_never_forked

SIGSTOP = 19
LARGEST_OUTPUT = 1 << 20  # bytes that imports printed
CPU_SHARE = 0.1  # of one CPU, for imports while all CPUs have work and no worker waits for them


class ParkedInterpreter:
    def __init__(self, link: int) -> None:
        self.link = socket.socket(fileno=link)
        self.outcome = ImportOutcome()
        self.effects = ImportEffects()
        self.memory_limit = resource.getrlimit(resource.RLIMIT_DATA)  # as it was given

    def serve(self) -> None:
        """Returns when this process is a worker, and shall run the script."""
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
            for given in request["open_files"]:  # a node that serves many others has raised its own limit
                resource.setrlimit(resource.RLIMIT_NOFILE, tuple(given))
            self.outcome = ImportOutcome(never_forked=first_never_forked(modules.required))
        else:
            limit, hard = request["limit"], self.memory_limit[1]
            allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
        if not self.outcome.unforkable:
            self._watch_imports(modules, forks=forks)
        if forks:
            die_with_parent(request["node"])
        self._report(seconds=time.monotonic() - began, names=modules.required)

    def _watch_imports(self, modules: ModulesToImport, *, forks: bool) -> None:
        with self.effects.watch(forks=forks), guarded(self.link) if forks else nullcontext():
            failed = run_imports(modules, self._has_request)
        self.outcome = ImportOutcome(
            failed=failed,
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
        """The workers to start; whether imports have read what is another now for them is known from here on."""
        spawns = unpack(request["spawns"], fds)
        misread = next((name for spawn in spawns if (name := self.effects.misread(spawn.env))), "")
        self.outcome = self.outcome._replace(changed=self.effects.changed_file(), misread=misread)
        return spawns

    def _fork(self, request: dict[str, Any], fds: list[int]) -> bool:
        """Whether this process is one of the workers now."""
        spawns = self._unpack(request, fds)
        spawn = None
        if self.outcome.unforkable:
            self._report()
        else:
            gc.freeze()  # the collector would write to pages that all workers share
            spawn = fork_workers(spawns, fds[0], fds[1], self.link, under_init=request["under_init"])
        if spawn is None:
            for fd in fds:  # if nothing was started, the pipes end with these copies, and the node sees it
                os.close(fd)
            return False
        become_worker(spawn, fds, self.effects, forked=True, records=request["records"])
        return True

    def _run(self, request: dict[str, Any], fds: list[int]) -> None:
        (spawn,) = self._unpack(request, fds)
        resource.setrlimit(resource.RLIMIT_DATA, self.memory_limit)
        if self.outcome.refusal:
            self._report(refused=True)
            start_cold(spawn)
        self.link.close()
        become_worker(spawn, fds, self.effects, forked=False, records=request["records"])


def _memory() -> int:
    """Bytes of this process, with its part of what it shares."""
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))


def become_worker(
    spawn: ProcessSpec, fds: Iterable[int], effects: ImportEffects, *, forked: bool, records: bool
) -> None:
    """Make this process as a cold start would have made it. When this returns, Python goes on to the script. If
    anything goes wrong here, the worker starts cold instead."""
    try:
        is_one_stream = os.path.samestat(os.fstat(1), os.fstat(2))
        printed = {stream: os.pread(stream, LARGEST_OUTPUT, 0) for stream in ((1,) if is_one_stream else (1, 2))}
        redirect(spawn)
        os.environ.clear()
        os.environ.update(effects.environ(spawn.env))
        _set_arguments(spawn.argv)
        if forked:
            effects.random.draw_again()
            _set_blas_threads()
        for stream, output in printed.items():
            os.write(stream, output)
        if records:
            record_imports(spawn.env.get("FLOTA_CHANNEL", ""))
        for fd in fds:
            os.close(fd)
    except Exception as error:
        start_cold(spawn, f"flota: this worker starts cold: {type(error).__name__}: {error}\n")


def start_cold(spawn: ProcessSpec, reason: str = "") -> None:
    redirect(spawn)
    os.write(2, reason.encode())
    os.execve(spawn.argv[0], spawn.argv, spawn.env)


def _set_arguments(argv: tuple[str, ...]) -> None:
    """The script is the same for all workers; its arguments may contain a rank."""
    sys.argv[1:] = argv[4 if argv[2] == "-m" else 3 :]  # python -u -m train …, or python -u train.py …
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = argv


def _set_blas_threads() -> None:
    """As many as OpenBLAS would have taken, which was held at one while it was imported."""
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
    """The shepherd of workers that are forks. It is itself a fork of the template, and a child of the node."""

    def execute(self, spawn: ProcessSpec) -> int:
        if pid := os.fork():
            return pid
        raise WorkerForked(spawn)


def fork_workers(
    spawns: list[ProcessSpec], commands: int, reports: int, link: socket.socket, *, under_init: bool
) -> ProcessSpec | None:
    """Returns in several processes: None in the template, and in each worker its own spawn.

    Only the template keeps the `link`, so that the link ends when the template does.
    """
    if between := os.fork():
        os.waitpid(between, 0)
        return None
    if os.fork():
        os._exit(0)  # so that the shepherd's parent is the node

    def prepared() -> ForkShepherd:
        link.close()
        os.write(reports, f"shepherd {os.getpid()}\n".encode())
        return ForkShepherd(spawns, commands, reports, own_session=True)

    try:
        run_to_end(prepared, under_init=under_init)
    except WorkerForked as worker:
        os.setsid()
        (spawn,) = worker.args
        return spawn  # type: ignore[no-any-return]
    return None  # never: the shepherd's process has ended


def run_imports(modules: ModulesToImport, is_urgent: Callable[[], bool]) -> str:
    """Why a required module could not be imported; empty when all could. They are slow until `is_urgent` holds."""
    main = sys.modules["__main__"]
    if not modules.is_module:
        main.__file__ = modules.script  # for modules that ask whether they are in a shell
    folders = [modules.folder] if modules.folder else []
    slow_down = SlowDown(is_urgent)
    sys.path[:0] = folders
    sys.meta_path.insert(0, slow_down)
    try:
        for name in (*modules.required, *modules.optional):
            try:
                import_module(name)
            except BaseException as error:  # a module may do anything, ending the program included
                if name in modules.required:
                    return f"cannot import `{name}`: {type(error).__name__}: {error}"
        return ""
    finally:
        sys.path[:] = [folder for folder in sys.path if folder not in folders]
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not slow_down]
        vars(main).pop("__file__", None)


class SlowDown:
    """A finder that is asked first for every module. It finds none, but sleeps while all CPUs are busy.

    A low priority would be simpler, but it cannot be raised again without a privilege, and would stay the worker's.
    """

    def __init__(self, is_urgent: Callable[[], bool]) -> None:
        self._is_urgent = is_urgent
        self._used = time.process_time()

    def find_spec(self, *_: object) -> None:
        used = time.process_time()
        until = time.monotonic() + (used - self._used) * (1 / CPU_SHARE - 1)
        self._used = used
        while (owed := until - time.monotonic()) > 0 and not self._is_urgent() and is_busy():
            time.sleep(min(0.1, owed))


def is_busy() -> bool:
    """Whether more processes want a CPU than there are."""
    with open("/proc/loadavg") as file:
        running = int(file.read().split()[3].partition("/")[0])
    return running > len(os.sched_getaffinity(0))


@contextmanager
def guarded(link: socket.socket) -> Iterator[None]:
    """Until it is left, this process and all that it starts, in any session, end when the `link` does.

    A fork template is not below a shepherd, and does not read the link during an import. A child reads it instead.
    """
    become_subreaper()
    parent = os.getpid()
    guard = os.fork()
    if guard == 0:
        try:
            die_with_parent(parent)  # or its copy of the link would hide the parent's end
            name_process("flota-guard")
            poll = select.poll()
            poll.register(link, 0)
            poll.poll()
            _end(parent)
        finally:
            os._exit(0)
    try:
        yield
    finally:
        kill(guard)
        try:
            os.waitpid(guard, 0)
        except ChildProcessError:
            pass  # an import has made the kernel reap all children
        become_subreaper(now=False)  # the shepherds that it forks must become the node's children


def _end(parent: int) -> None:
    os.kill(parent, SIGSTOP)  # now it starts no process, and remains the parent of those that it has
    while others := [pid for pid in descendants_of(parent) if pid != os.getpid() and not _is_dead(pid)]:
        for pid in others:
            kill(pid)
        time.sleep(0.0005)
    kill(parent)


def _is_dead(pid: int) -> bool:
    """It stays listed while its parent is stopped, and does not reap it."""
    return stat_fields(pid)[:1] in ([], ["Z"], ["X"])
