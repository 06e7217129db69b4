"""What a parked interpreter does: it imports, waits, and becomes a worker or forks workers.
Runs in workers' interpreters: Python 3.8."""

from __future__ import annotations

import gc
import os
import resource
import select
import socket
import sys
import time
from contextlib import nullcontext
from typing import Any

from flota.errors import BUG
from flota.host.kill_tree import children_of, kill_descendants
from flota.host.process_attributes import die_with_parent
from flota.host.process_start import ProcessSpec
from flota.host.shepherd import Shepherd
from flota.standby.become_worker import become_worker, start_cold
from flota.standby.import_effects import ImportEffects
from flota.standby.modules_to_import import ModulesToImport
from flota.standby.parked_protocol import receive, send, unpack
from flota.standby.run_imports import guarded, run_imports
from flota.standby.strategy import ImportOutcome, first_never_forked


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
            self.outcome = ImportOutcome(never_forked=first_never_forked(modules.names))
        else:
            limit, hard = request["limit"], self.memory_limit[1]
            allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
        if not self.outcome.unforkable:
            self._watch_imports(modules, forks=forks, patient=request["patient"])
        if forks:
            die_with_parent(request["node"])
        self._report(seconds=time.monotonic() - began, names=modules.names)

    def _watch_imports(self, modules: ModulesToImport, *, forks: bool, patient: bool) -> None:
        effects = self.effects.watch(modules.script, modules.variables, forks=forks)
        with effects, guarded(self.link) if forks else nullcontext():
            failed = run_imports(modules, self._has_request if patient else None)
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

    def _fork(self, request: dict[str, Any], fds: list[int]) -> bool:
        """Whether this process is one of the workers now."""
        spawns = unpack(request["spawns"], fds)
        misread = next((name for spawn in spawns if (name := self.effects.misread(spawn.env))), "")
        self.outcome = self.outcome._replace(changed=self.effects.changed_file(), misread=misread)
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
        (spawn,) = unpack(request["spawns"], fds)
        misread = self.effects.misread(spawn.env)
        self.outcome = self.outcome._replace(changed=self.effects.changed_file(), misread=misread)
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


class WorkerForked(BaseException):
    """Raised in a new worker, with its spawn: leaves all that the shepherd was doing."""


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
    code = BUG
    try:
        link.close()
        os.write(reports, f"shepherd {os.getpid()}\n".encode())
        ForkShepherd(spawns, commands, reports, own_session=True).run()
        code = 0
    except WorkerForked as worker:
        os.setsid()
        (spawn,) = worker.args
        return spawn  # type: ignore[no-any-return]
    except BaseException:  # a bug of ours; the node learns of it from the exit code
        import traceback

        traceback.print_exc()
    try:
        kill_descendants(under_init=under_init)
    finally:
        os._exit(code)
