"""The fork template as the node sees it: one parked interpreter that workers are forked from."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

from flota.host.parked_process import end, start
from flota.host.process_start import ProcessSpec
from flota.standby.parked_command import close_output, parked_command
from flota.standby.parked_protocol import import_request, pack, send
from flota.standby.strategy import common_variables


class ForkTemplate:
    """`link` becomes readable when it has sent a report, or is gone."""

    def __init__(
        self, spawns: list[ProcessSpec], modules: Sequence[str], learnt: Sequence[str], *, patient: bool
    ) -> None:
        env = common_variables([spawn.env for spawn in spawns])
        self.is_ready = False  # its imports are done, and it can be forked
        self.link, other = socket.socketpair()
        command = parked_command(spawns[0]._replace(env=env), other.fileno())
        try:
            self._pid = start(command)
            assert isinstance(command.stderr, int)
            self._stderr = os.dup(command.stderr)
        except OSError:
            self.link.close()
            raise
        finally:
            other.close()
            close_output(command)
        send(self.link, import_request(spawns[0], modules, learnt, patient=patient))

    def fork(self, spawns: list[ProcessSpec], *, records: bool) -> tuple[int, int, int]:
        """As `fork_shepherd`, but the pid comes later, through the report pipe. If the template is gone, the pipe ends
        at once, and the workers start cold."""
        commands, command_end = os.pipe()
        report_end, reports = os.pipe()
        fds = [commands, reports]
        packed = pack(spawns, fds)
        message = {"do": "fork", "spawns": packed, "under_init": os.getpid() == 1, "records": records}
        send(self.link, message, fds)
        os.close(commands)
        os.close(reports)
        return 0, command_end, report_end

    def close(self) -> None:
        """It exits on its own when the link ends, but not in the middle of an import."""
        self.link.close()
        end(self._pid)
        os.close(self._stderr)

    def last_line(self) -> str:
        """Of what it printed to stderr."""
        size = os.fstat(self._stderr).st_size
        lines = os.pread(self._stderr, 1 << 16, max(0, size - (1 << 16))).decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line), "")
