"""The shepherd of workers that are forks of a parked interpreter: it is itself one, and the node's child as any other.

Runs in workers' interpreters: Python 3.8.
"""

from __future__ import annotations

import os

from flota.errors import BUG
from flota.host.kill_tree import kill_descendants
from flota.host.process_start import ProcessSpec
from flota.host.shepherd import Shepherd

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket


class Hatched(BaseException):
    """In a worker that was just forked: leaves all that the shepherd was doing."""

    def __init__(self, spawn: ProcessSpec) -> None:
        super().__init__()
        self.spawn = spawn


class Flock(Shepherd):
    def execute(self, spawn: ProcessSpec) -> int:
        pid = os.fork()
        if pid:
            return pid
        raise Hatched(spawn)


def fork_flock(
    spawns: list[ProcessSpec], commands: int, reports: int, link: socket.socket, *, under_init: bool
) -> ProcessSpec | None:
    """Returns twice and more: None in the parked interpreter, and in each worker what it shall be.

    Only the parked interpreter keeps the `link`: its end is known by the link's.
    """
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return None
    if os.fork():
        os._exit(0)  # so that the shepherd's parent is the node
    code = BUG
    try:
        link.close()
        os.write(reports, f"shepherd {os.getpid()}\n".encode())
        Flock(spawns, commands, reports, own_session=True).run()
        code = 0
    except Hatched as worker:
        os.setsid()
        return worker.spawn
    except BaseException:  # a bug of ours; the node hears of it through the code
        import traceback

        traceback.print_exc()
    try:
        kill_descendants(under_init=under_init)
    finally:
        os._exit(code)
