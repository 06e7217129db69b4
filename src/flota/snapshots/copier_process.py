"""The node's side of its copier: starts the process when there is something to send, to receive or to fetch."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from flota.frameworks import SECRETS
from flota.host.kill_tree import kill, other_children
from flota.host.loop import Loop
from flota.host.process_start import ProcessSpec, execute
from flota.job.plan import WorkerPlan
from flota.job.printable import printable
from flota.job.roster import Seat
from flota.snapshots.memory import SnapshotMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from flota.cluster.multi_node import MultiNode

CHECK_INTERVAL = 1.0  # seconds between looks for a first sharded state
MOST_WARNINGS = 20
MOST_RESTARTS = 3  # of the process in one round
NO_MORE = f"it was started again {MOST_RESTARTS} times, so no more states are sent or written in this round"
LONGEST_ORDER = 1.0  # seconds for which the node waits for a copier that does not read
LONGEST_FLUSH = 60.0  # seconds for writing the last states


class CopierProcess:
    """`address`: where other nodes reach it; empty: nowhere. `copies`: how many other nodes get this node's states.
    `say` prints a line."""

    def __init__(
        self,
        memory: SnapshotMemory,
        loop: Loop,
        say: Callable[[str, str], object],
        environ: Mapping[str, str],
        address: str = "",
        copies: int = 0,
        token: str = "",
        disk: tuple[str, float] = ("", 0.0),
    ) -> None:
        self._memory, self._loop, self._say, self._copies, self._token = memory, loop, say, copies, token
        self._directory, self._every = disk
        self._is_flushed = self._is_closing = False
        self._env = {name: value for name, value in environ.items() if name not in SECRETS}
        self.deadline: float | None = None
        self._orders: list[dict[str, Any]] = []
        self._own: set[tuple[str, int]] = set()
        self._failed: set[tuple[str, int]] = set()  # ranks whose states could not be fetched in this round
        self._pid, self._link = 0, None
        self._has_orders = False  # whether a process was given those of this round
        self._failures = 0  # of the process in this round
        self._warnings = 0
        self._listener = _listen(address)
        if self._listener:
            loop.watch(self._listener.fileno(), self._start, last=True)

    _link: socket.socket | None

    @property
    def port(self) -> str:
        """Where other nodes reach the copier; empty: nowhere."""
        return str(self._listener.getsockname()[1]) if self._listener else ""

    def begin_round(self, seats: tuple[Seat, ...], own: int, plans: tuple[WorkerPlan, ...], now: float) -> None:
        """`seats`: the nodes of the round, of which this is number `own`, with these workers."""
        ranks = [(plan.worker.name, plan.worker.rank) for plan in plans]
        had_failed = self._failures > 0
        self._own, self._failed, self._failures, self._has_orders = set(ranks), set(), 0, False
        for line in self._memory.warnings:
            self._say("WARNING", line)
        self._memory.warnings.clear()
        for line in self._memory.news:
            self._say("INFO", line)
        by_name = {seat.node: seat for seat in seats}
        reachable = [one for one in seats[own + 1 :] + seats[:own] if one.copier][: self._copies]
        sends = [{"do": "send", "role": role, "rank": rank, **_place(to)} for role, rank in ranks for to in reachable]
        fetches = []
        for role, rank, step, node in self._memory.fetches:
            if node in by_name and by_name[node].copier:
                fetches.append({"do": "fetch", "role": role, "rank": rank, "step": step, **_place(by_name[node])})
            else:
                self._fail_fetch(role, rank, step)
        writes = [{"do": "write", "role": role, "rank": rank, "every": self._every} for role, rank in ranks]
        self._orders = [*fetches, *sends, *(writes if self._directory else ())]
        if self._link or fetches or had_failed:
            self._start()
        self.deadline = now + CHECK_INTERVAL if not self._link and (self._orders or self._failures) else None

    def on_time(self, now: float) -> None:
        """Start the process when a worker has saved a state that no other rank has, or again if it has failed."""
        if self.deadline is not None and now >= self.deadline:
            self.deadline = now + CHECK_INTERVAL
            held = [file.held() for file in self._memory.files if (file.role, file.rank) in self._own]
            if self._failures or any(one and (one.sharded or self._directory) for one in held):
                self._start()

    def _start(self) -> None:
        """Start the process, unless it runs, and give it its orders."""
        self.deadline = None
        if self._link is None:
            link, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            listener = self._listener.fileno() if self._listener else -1
            self._loop.forget(listener)
            fds = [fd for fd in (other.fileno(), listener) if fd >= 0]
            code = f"from flota.snapshots.copier import main; main({other.fileno()}, {listener}, {os.getpid()})"
            try:
                # -P: it must not import modules of the user's directory.
                spec = ProcessSpec((sys.executable, "-P", "-c", code), self._env, os.devnull, os.devnull, tuple(fds))
                self._pid = execute(spec, own_session=True)
            except OSError as error:
                link.close()
                self._on_failure(f"cannot start a process for copies of states: {error.strerror}")
                return
            finally:
                other.close()
            other_children.add(self._pid)
            link.settimeout(LONGEST_ORDER)
            self._link = link
            self._loop.watch(link.fileno(), self._read)
        if self._link:
            self._give_orders(self._link)

    def _give_orders(self, link: socket.socket) -> None:
        steps = {one.role: one.step for one in self._memory.loaded}
        self._order(link, {"do": "round", "token": self._token, "directory": self._directory})
        for file in self._memory.files:
            # A second process of the round must not forget the copies that the first has taken.
            keep = self._has_orders or (file.role, file.rank) in self._own | self._failed
            forget = None if keep else steps.get(file.role, -1)
            self._order(link, {"do": "file", "role": file.role, "rank": file.rank, "forget": forget}, file.fd)
        for order in [{"do": "serve"}, *self._orders]:
            self._order(link, order)
        self._has_orders = True

    def _order(self, link: socket.socket, order: dict[str, Any], *fds: int) -> None:
        try:
            socket.send_fds(link, [json.dumps(order).encode()], list(fds))
        except OSError:  # it has exited, which is reported next, or does not read
            if order["do"] == "fetch":
                self._fail_fetch(order["role"], order["rank"], order["step"])

    def _read(self) -> None:
        assert self._link is not None
        data, fds, _, _ = socket.recv_fds(self._link, 1 << 16, 1, socket.MSG_CMSG_CLOEXEC)
        if not data:
            self._forget_process()
            return
        report = json.loads(data)
        if report["do"] == "took":
            self._memory.take(report["role"], report["rank"], fds[0])
        elif report["do"] == "flushed":
            self._is_flushed = True
        elif self._warnings < MOST_WARNINGS:
            self._warnings += 1
            self._say("WARNING", f"snapshots: {printable(report['text'])}")

    def _forget_process(self) -> None:
        """It was killed, perhaps for want of memory."""
        assert self._link is not None
        self._loop.forget(self._link.fileno())
        self._link.close()
        self._link = None
        _reap(self._pid)
        self._on_failure("the process for copies of states has ended unexpectedly")

    def _on_failure(self, text: str) -> None:
        """Workers must not wait for the process. It is started again later, but not for ever. Until then nodes that
        connect must wait."""
        self._failures += 1
        is_last = self._is_closing or self._failures > MOST_RESTARTS
        if is_last:
            lost = "the last states are not written" if self._is_closing else NO_MORE
            self._say("WARNING", f"snapshots: {text}; {lost}")
        elif self._failures == 1:
            self._say("WARNING", f"snapshots: {text}; starting it again")
        self.deadline = None if is_last else time.monotonic() + CHECK_INTERVAL
        self._orders = [order for order in self._orders if order["do"] != "fetch"]
        for role, rank, step, _ in self._memory.fetches:
            self._fail_fetch(role, rank, step)

    def _fail_fetch(self, role: str, rank: int, step: int) -> None:
        """Tell the workers that wait for a state that it does not come."""
        for file in self._memory.files:
            if (file.role, file.rank) == (role, rank) and not file.has(step):
                self._failed.add((role, rank))
                file.fail(step)

    def _flush(self) -> None:
        """Have the last states written, for the next job in the same directory."""
        if not self._link and any(file.held() for file in self._memory.files):
            self._start()
        if self._link:
            self._order(self._link, {"do": "flush", "ranks": sorted(self._own)})
        give_up = time.monotonic() + LONGEST_FLUSH
        while self._link and not self._is_flushed and time.monotonic() < give_up:
            self._loop.turn(LONGEST_FLUSH / 100)

    def close(self) -> None:
        self._is_closing = True
        if self._directory:
            self._flush()
        if self._link:
            self._loop.forget(self._link.fileno())
            self._link.close()
            kill(self._pid)
            _reap(self._pid)
            self._link = None
        if self._listener:
            self._loop.forget(self._listener.fileno())
            self._listener.close()
            self._listener = None


def open_copier(node: MultiNode) -> CopierProcess:
    """Other nodes do not reach it without a token, because strangers would, nor if the user wants TLS: states would be
    sent in the clear. Certificates that flota derives from the token are for etcd alone."""
    spec, say, token = node.spec, node.console.say, node.requests.token
    wants_tls = spec.nodes is not None and (spec.nodes.tls or bool(spec.nodes.secrets.certificate))
    where = spec.address if token and not wants_tls else ""
    disk = spec.snapshot_dir, spec.snapshot_every
    return CopierProcess(node.snapshots, node.loop, say, node.environ, where, spec.snapshot_copies, token, disk)


def _place(seat: Seat) -> dict[str, Any]:
    return {"host": seat.host, "address": seat.address, "port": int(seat.copier or 0)}


def _listen(address: str) -> socket.socket | None:
    if not address:
        return None
    try:
        return socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError:
        return None  # not an address of this machine, as behind a forwarded port


def _reap(pid: int) -> None:
    other_children.discard(pid)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass  # reaped as an orphan
