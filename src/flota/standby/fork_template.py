"""The parked interpreter that workers are forked from, as the node sees it."""

from __future__ import annotations

import os
import socket

from flota.host.open_files import given_open_files
from flota.host.parked_process import end, start
from flota.host.process_start import ProcessSpec
from flota.standby.parked_protocol import pack, receive, send
from flota.standby.strategy import shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SITE = os.path.join(os.path.dirname(__file__), "site")


def parking(spawn: ProcessSpec, link: int) -> ProcessSpec:
    """The command of a worker, to be parked before it comes to its script; `link` is its end of the way to the node."""
    out, err = sayings(apart=spawn.stdout != spawn.stderr)
    return _before_site(spawn._replace(stdout=out, stderr=err, inherited_fds=(link,)), FLOTA_PARK=str(link))


def recorded(spawns: list[ProcessSpec]) -> list[ProcessSpec]:
    """The first of them writes down what it imports."""
    return [_before_site(spawns[0], FLOTA_RECORD="1"), *spawns[1:]]


def _before_site(spawn: ProcessSpec, **more: str) -> ProcessSpec:
    """With a module of ours that Python imports before it comes to the script."""
    env = {**spawn.env, **more}
    if "PYTHONPATH" in env:
        env["FLOTA_PYTHONPATH"] = env["PYTHONPATH"]
    env["PYTHONPATH"] = os.pathsep.join([SITE, *([env["PYTHONPATH"]] if env.get("PYTHONPATH") else [])])
    return spawn._replace(env=env)


def sayings(*, apart: bool) -> tuple[int, int]:
    """Files for what imports print, which is every worker's to print: where its streams have one log, one."""
    out = os.memfd_create("flota", os.MFD_CLOEXEC)
    return out, os.memfd_create("flota", os.MFD_CLOEXEC) if apart else out


def close_sayings(spawn: ProcessSpec) -> None:
    for fd in {spawn.stdout, spawn.stderr}:
        assert isinstance(fd, int)
        os.close(fd)


class Origin:
    """`link` becomes readable when it has something to say, or is gone."""

    def __init__(self, link: socket.socket, said: int, pid: int = 0) -> None:
        self.link = link
        self.pid = pid
        self._said = said  # what it prints to stderr

    @classmethod
    def start(cls, spawns: list[ProcessSpec], wish: dict[str, Any], *, patient: bool) -> Origin:
        """With the variables that are the same for all workers."""
        link, other = socket.socketpair()
        env = shared([spawn.env for spawn in spawns])
        parked = parking(spawns[0]._replace(env=env), other.fileno())
        assert isinstance(parked.stderr, int)
        try:
            origin = cls(link, os.dup(parked.stderr), start(parked))
        finally:
            other.close()
            close_sayings(parked)
        try:
            send(link, import_order(spawns, wish, forks=True, patient=patient))
        except OSError:
            pass  # it is gone, which the link says next
        return origin

    def split(self, spawns: list[ProcessSpec], wish: dict[str, Any]) -> Origin:
        """Another one, that has imported more; this one is as good as before."""
        link, other = socket.socketpair()
        order = import_order(spawns, wish, forks=True, patient=True)
        out, err = sayings(apart=spawns[0].stdout != spawns[0].stderr)
        with other:
            try:
                send(self.link, {**order, "do": "split"}, [other.fileno(), out, err])
            except OSError:
                link.close()
                os.close(err)
                raise
            finally:
                if out != err:
                    os.close(out)
        return Origin(link, err)

    def fork(self, spawns: list[ProcessSpec], *, records: bool) -> tuple[int, int, int]:
        """As `fork_shepherd`, but that the pid comes later, through the report pipe."""
        commands, command_end = os.pipe()
        report_end, reports = os.pipe()
        fds = [commands, reports]
        streams: list[int] = []
        packed = pack(spawns, streams)
        order = {"do": "fork", "spawns": packed, "under_init": os.getpid() == 1, "records": records}
        try:
            send(self.link, order, [*fds, *streams])
        except OSError:
            pass  # it is gone: the report pipe ends at once, and the workers start cold
        finally:
            os.close(commands)
            os.close(reports)
        return 0, command_end, report_end

    def read(self) -> dict[str, Any] | None:
        """What it says; None when it is gone."""
        got = receive(self.link)
        if got is None:
            return None
        self.pid = got[0]["pid"]
        return got[0]

    def close(self) -> None:
        """It ends by itself when the link does; but in the middle of an import it would not look."""
        self.link.close()
        end(self.pid)
        os.close(self._said)

    def last_words(self) -> str:
        size = os.fstat(self._said).st_size
        lines = os.pread(self._said, 1 << 16, max(0, size - (1 << 16))).decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line), "")


def import_order(spawns: list[ProcessSpec], wish: dict[str, Any], *, forks: bool, patient: bool) -> dict[str, Any]:
    """For an interpreter that one or more of these workers shall come of."""
    _, _, target, *rest = spawns[0].argv  # python -u train.py …, or python -u -m train …
    return {
        **wish,
        "do": "import",
        "script": rest[0] if target == "-m" else target,
        "is_module": target == "-m",
        "forks": forks,
        "patient": patient,
        "node": os.getpid(),
        "open_files": given_open_files(),
    }
