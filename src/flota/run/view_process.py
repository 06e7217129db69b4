"""The live view that `--view` shows: a process of its own on the terminal, which asks this node as `flota top` does."""

from __future__ import annotations

import os
import sys
import termios
import time

from flota.host.kill_tree import kill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.run.node_watch import NodeWatch

SIGTERM = 15
# After a view that was killed: leave the alternate screen, show the cursor, no colours, no reports of focus and paste.
RESTORE = b"\x1b[?1049l\x1b[?25h\x1b[0m\x1b[?1004l\x1b[?2004l\x1b[?7h\x1b[<u"


class ViewProcess:
    """The console writes to files only until the view has ended."""

    def __init__(self, node: NodeWatch) -> None:
        self._node = node
        self._terminal = termios.tcgetattr(0)
        # The end of this pipe is the end of the view. Its pid does not tell: orphans may be reaped elsewhere.
        self._pipe, end = os.pipe()
        os.set_inheritable(end, True)  # noqa: FBT003
        words = [sys.executable, "-P", "-m", "flota", "top", "--of-node", str(os.getpid())]
        node.console.hide()
        self._pid = os.posix_spawn(sys.executable, words, dict(node.environ))
        os.close(end)
        node.loop.watch(self._pipe, self._on_end)

    def wait(self) -> None:
        """The job has ended, and the view shows how. Wait until the user leaves it, or a stop signal arrives."""
        node = self._node
        while node.view:
            if node.exit_now:
                kill(self._pid, SIGTERM)
            deadline = node.control.deadline
            node.loop.turn(None if deadline is None else max(0.0, deadline - time.monotonic()))
            node.control.on_time(time.monotonic())

    def _on_end(self) -> None:
        self._node.loop.forget(self._pipe)
        os.close(self._pipe)
        try:
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            pass  # reaped as an orphan
        if termios.tcgetattr(0) != self._terminal:
            os.write(1, RESTORE)
            termios.tcsetattr(0, termios.TCSANOW, self._terminal)
        self._node.view = None
        self._node.console.show()
        if not self._node.ending:
            self._node.console.say("INFO", "the view has ended; the job goes on (to show it again: flota top)")
