"""A parked interpreter: it imports what it is told to, waits, and becomes a worker or the origin of workers.

Runs in workers' interpreters: Python 3.8.
"""

from __future__ import annotations

import gc
import os
import select
import socket
import sys
import time
from contextlib import nullcontext

from flota.host.kill_tree import children_of
from flota.host.prctl import die_with_parent
from flota.standby.become_worker import become, copy_sayings, start_cold
from flota.standby.changed_modules import Files
from flota.standby.fork_shepherd import fork_flock
from flota.standby.import_guard import guarded
from flota.standby.import_traces import Traces, own_generators
from flota.standby.imports import ImportWish, import_all
from flota.standby.parked_protocol import receive, send, unpack
from flota.standby.resource_limits import limit_memory, limit_open_files, memory
from flota.standby.strategy import Parked, never_forked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Order = dict[str, Any]

# So that BLAS has no threads when it is forked.
HELD_BACK = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS")


def park(fd: int) -> None:
    """Returns when this process shall run the script, as the worker that it has become."""
    Inside(socket.socket(fileno=fd)).serve()


class Inside:
    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.parked = Parked()
        self.traces = Traces()
        self.files = Files()

    def serve(self) -> None:
        while True:
            got = receive(self.link)
            if got is None:
                os._exit(0)
            order, fds = got
            if order["do"] == "import":
                self._import(order)
            elif order["do"] == "split":
                self._split(order, fds)
            elif order["do"] == "fork":
                if self._fork(order, fds):
                    return
            elif order["do"] == "run":
                self._run(order, fds)
                return

    def _import(self, order: Order) -> None:
        began = time.monotonic()
        wish = ImportWish(order)
        if order["forks"]:
            limit_open_files(order["open_files"])
            self.parked = Parked(never_forked=never_forked(wish.wanted))
        else:
            limit_memory(order["limit"])
        if not self.parked.unforkable:
            self._watch_imports(wish, order)
        if order["forks"]:
            die_with_parent(order["node"])
        self._say(seconds=time.monotonic() - began, names=wish.wanted)

    def _watch_imports(self, wish: ImportWish, order: Order) -> None:
        self.traces.begin(HELD_BACK, wish.variables)
        if order["forks"]:
            os.environ.update(dict.fromkeys(HELD_BACK, "1"))
        self.files.begin()
        with guarded(self.link) if order["forks"] else nullcontext():
            failed = import_all(wish, self._is_wanted if order["patient"] else None)
        self.files.end([wish.script] if wish.variables else [])
        self.traces.end()
        self.parked = Parked(
            failed=failed,
            never_forked=never_forked(list(sys.modules)),
            threads=len(os.listdir("/proc/self/task")),
            opened=next(iter(self.traces.opened), ""),
            children=bool(children_of(os.getpid())),
            generators=order["forks"] and own_generators(),
        )

    def _say(self, **more: object) -> None:
        send(self.link, {"pid": os.getpid(), "parked": [*self.parked], "memory": memory(), **more})

    def _is_wanted(self) -> bool:
        return bool(select.select([self.link], [], [], 0)[0])

    def _split(self, order: Order, fds: list[int]) -> None:
        """A copy of this interpreter tries to import more: when it succeeds, it is used in this one's place."""
        between = os.fork()
        if between:
            os.waitpid(between, 0)
            for fd in fds:
                os.close(fd)
            return
        between = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == between:  # nothing tells of a new parent
            time.sleep(0.0005)
        os.setsid()  # the old one's end takes its session along
        self.traces.chance.restore()
        self.link.close()
        link, out, err = fds
        self.link = socket.socket(fileno=link)
        copy_sayings(out, err)
        self._import(order)

    def _fork(self, order: Order, fds: list[int]) -> bool:
        """Whether this is one of the workers now."""
        commands, reports, *streams = fds
        spawns = unpack(order["spawns"], streams)
        misread = next((name for spawn in spawns if (name := self.traces.misread(spawn.env))), "")
        self.parked = self.parked._replace(stale=self.files.changed(), misread=misread)
        spawn = None
        if not self.parked.unforkable:
            gc.freeze()  # the collector would write to pages that all workers share
            spawn = fork_flock(spawns, commands, reports, self.link, under_init=order["under_init"])
        if spawn is None:
            # With their last copies the pipes end, and the node knows that nobody was started.
            for fd in fds:
                os.close(fd)
            if self.parked.unforkable:
                self._say(refused=True)
            return False
        become(spawn, fds, self.traces, forked=True, records=order["records"])
        return True

    def _run(self, order: Order, fds: list[int]) -> None:
        (spawn,) = unpack([order["spawn"]], fds)
        self.parked = self.parked._replace(stale=self.files.changed(), misread=self.traces.misread(spawn.env))
        limit_memory(None)
        if self.parked.refusal:
            try:
                self._say(refused=True)
            except OSError:
                pass  # nobody listens any more
            start_cold(spawn)
        self.link.close()
        become(spawn, fds, self.traces, forked=False, records=order["records"])
