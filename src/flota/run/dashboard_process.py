"""The process that serves the page of this job, for --dashboard. The kernel kills it when the node dies."""

from __future__ import annotations

import os
import sys

from flota.frameworks import SECRETS
from flota.host.kill_tree import kill
from flota.host.process_start import ProcessSpec, execute
from flota.job.printable import printable
from flota.logs.directory import remove, write_whole
from flota.logs.own_logs import stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.run.node_watch import NodeWatch

TOKEN_FILE = "dashboard.token"  # noqa: S105  the name of a file
MOST_LINES = 20  # of the process that are printed


class DashboardProcess:
    """`address`: where to serve the page."""

    def __init__(self, node: NodeWatch, address: str, port: int) -> None:
        self._node = node
        self._rest = b""
        self._lines = 0
        self._token_file = ""
        self._out, out = os.pipe()
        host = f"[{address}]" if ":" in address else address
        words = ["dashboard", "--listen", f"{host}:{port}", "--parent", str(os.getpid())]
        # -P: the page must not import modules of the user's directory.
        argv = (sys.executable, "-P", "-m", "flota", *words)
        env = {name: value for name, value in node.environ.items() if name not in SECRETS}
        try:
            self._pid = execute(ProcessSpec(argv, env, out, out), own_session=True)
        finally:
            os.close(out)
        node.loop.watch(self._out, self._read)

    def _read(self) -> None:
        data = os.read(self._out, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines[: MOST_LINES - self._lines]:
            self._lines += 1
            text = line.decode(errors="replace")
            if text.startswith("http://") and not self._token_file:
                self._announce(text)
            else:
                self._node.console.say("WARNING", f"page: {printable(text)}")
        if not data:
            self._node.loop.forget(self._out)
            os.close(self._out)
            self._out = -1

    def _announce(self, link: str) -> None:
        """Print the link with the token on a terminal. A log must not have it, so it is also in a file."""
        console = self._node.console
        page, _, token = link.partition("#token=")
        self._token_file = f"{self._node.spec.log.directory}/{TOKEN_FILE}"
        try:
            write_whole(self._token_file, f"{token}\n", mode=0o600)
        except OSError as error:
            console.say("WARNING", f"cannot write {self._token_file}: {error.strerror}")
        words = f"page: {page}#token=TOKEN, with the token in {self._token_file}"
        shown = f"page: {link}" if os.isatty(2) else words
        console.own_log.write_text("INFO", f"{stamp('INFO')}{words}", f"flota: {shown}")

    @property
    def is_alive(self) -> bool:
        return self._out >= 0

    def stop(self) -> None:
        if self._out >= 0:
            self._node.loop.forget(self._out)
            os.close(self._out)
            self._out = -1
            kill(self._pid)
            try:
                os.waitpid(self._pid, 0)
            except ChildProcessError:
                pass  # reaped as an orphan
        if self._token_file:
            remove(self._token_file)


def serve_page(node: NodeWatch, where: tuple[str, int], page: DashboardProcess | None) -> DashboardProcess | None:
    """Start the process, unless `page` is alive: it may have been killed together with stray processes of a round."""
    if page and page.is_alive:
        return page
    try:
        return DashboardProcess(node, *where)
    except OSError as error:
        node.console.say("WARNING", f"cannot serve the page: {error.strerror}")
        return None
