"""The process of a node that sends and receives states: transfers of gigabytes must not delay the node's loop.

It has the memory of the node's ranks, and of the ranks of other nodes that it keeps copies for. Its orders come from
the node, through a socket; it exits when that is closed. It waits in threads, one per connection.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import Any
from zlib import crc32

from flota.free_memory import available
from flota.snapshots import copy_protocol as protocol
from flota.snapshots.copy_protocol import CHUNK, GET, PUT, CopyFailed, CopyRequest
from flota.snapshots.disk import find_file, newest_unwritten, write_file
from flota.snapshots.memory import create_memory
from flota.snapshots.state_file import StateFile
from flota.snapshots.stride import StrideChoice
from flota.worker import snapshot_layout as layout
from flota.worker.snapshot_files import set_aside
from flota.worker.snapshot_layout import NO_STEP, Entry

PATIENCE = 20.0  # seconds without a byte after which a transfer is given up
GREETING = 5.0  # seconds for a client to prove that it knows the token
MOST_STRANGERS = 32  # clients that have not proved yet that they know the token
TRIES, RETRY = 20, 0.5  # of a fetch, and seconds between them
POLL = 0.2  # seconds between looks for a new state
RATE = 256 << 20  # bytes per second to one node: training needs the network as well
SHARE = 4  # of the available memory, for copies
NICENESS = 10


def main(fd: int, listener_fd: int, parent: int) -> None:
    """`listener_fd`: where other nodes connect; -1: nowhere."""
    from flota.host.process_start import die_with_parent

    die_with_parent(parent)
    os.nice(NICENESS)
    listener = socket.socket(fileno=listener_fd) if listener_fd >= 0 else None
    Copier(socket.socket(fileno=fd), listener).run()


class Copier:
    def __init__(self, node: socket.socket, listener: socket.socket | None) -> None:
        self._node, self._listener = node, listener
        self._directory = ""  # where states are written
        self._choices: dict[tuple[str, int], StrideChoice] = {}  # by rank: the states that are sent
        self._lock = Lock()
        self._files: dict[tuple[str, int], StateFile] = {}
        self._writers: dict[tuple[str, int], Lock] = {}  # by rank: one thread at a time writes its states
        self._written: dict[tuple[str, int], tuple[int, int]] = {}  # by rank: round and step of the last file
        self._token, self._key = "", b""
        self._round = 0  # transfers of earlier rounds end
        self._strangers: dict[int, socket.socket] = {}  # the oldest first

    def run(self) -> None:
        while True:
            data, fds, _, _ = socket.recv_fds(self._node, 1 << 16, 1, socket.MSG_CMSG_CLOEXEC)
            if not data:
                return
            self._perform(json.loads(data), fds)

    def _perform(self, order: dict[str, Any], fds: list[int]) -> None:
        if order["do"] == "round":
            with self._lock:
                if order["token"] != self._token:
                    self._token, self._key = order["token"], protocol.derive_key(order["token"])
                self._directory, self._round = order["directory"], self._round + 1
                for file in self._files.values():
                    os.close(file.fd)
                self._files.clear()
        elif order["do"] == "file":
            with self._lock:
                file = StateFile(order["role"], order["rank"], fds[0])
                self._files[file.role, file.rank] = file
                if order["forget"] is not None:
                    file.forget_after(order["forget"])
        elif order["do"] == "serve":  # the token and all files are known now
            if self._listener:
                Thread(target=self._serve, args=(self._listener,), daemon=True).start()
                self._listener = None
        elif order["do"] == "flush":
            self._flush(order)
        else:
            work = {"fetch": self._fetch, "send": self._send_to, "write": self._write_to_disk}[order["do"]]
            Thread(target=work, args=(order, self._round), daemon=True).start()

    def _report(self, fds: list[int], **facts: Any) -> None:
        try:
            socket.send_fds(self._node, [json.dumps(facts).encode()], fds)
        except OSError:
            pass  # the node is gone, or has not read for long

    # States that other nodes ask for, or send.

    def _serve(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            with self._lock:
                if len(self._strangers) >= MOST_STRANGERS:
                    _hang_up(self._strangers.pop(next(iter(self._strangers))))  # idle ones must not keep nodes out
                self._strangers[id(connection)] = connection
            Thread(target=self._serve_one, args=(connection,), daemon=True).start()

    def _serve_one(self, connection: socket.socket) -> None:
        round_ = self._round
        with connection:
            try:
                request = protocol.answer(connection, self._key, time.monotonic() + GREETING)
                self._admit(connection)
                connection.settimeout(PATIENCE)
                if request.do == GET:
                    self._give(connection, request)
                else:
                    self._keep_copy(connection, request, round_)
            except (OSError, CopyFailed):
                pass  # the other side reports it
            finally:
                self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        """It is not a stranger any more, or is closed."""
        with self._lock:
            self._strangers.pop(id(connection), None)

    def _give(self, connection: socket.socket, request: CopyRequest) -> None:
        with self._borrow(request.role, request.rank, request.step) as file:
            entries = file.entries()
            buffer = layout.complete_steps(entries).get(request.step)
            if buffer is None:
                raise CopyFailed("this node does not have that state")
            entry = entries[buffer]
            try:
                protocol.send_state(connection, entry, _verify(_read_buffer(file, buffer, entry), entry))
            except _Damaged:
                path = find_file(self._directory, *request[1:])
                if set_aside(path):
                    self._report([], do="warn", text=f"{path} is damaged: it is {path}.damaged now, and is not loaded")
                raise

    def _keep_copy(self, connection: socket.socket, request: CopyRequest, round_: int) -> None:
        """Take a state of a rank of another node. This node gets a descriptor of the memory."""
        with self._lock:
            key = request.role, request.rank
            if key not in self._files:
                self._files[key] = StateFile(*key, create_memory())
                self._report([self._files[key].fd], do="took", role=request.role, rank=request.rank)
        with self._borrow(*key) as file:
            self._take(connection, request, file, round_)

    @contextmanager
    def _borrow(self, role: str, rank: int, step: int = NO_STEP) -> Iterator[StateFile]:
        """A descriptor of one's own: the next round closes the others, and their numbers are used again. `step`: a file
        on the disk will do, if it is of this step."""
        with self._lock:
            file = self._files.get((role, rank))
            path = find_file(self._directory, role, rank, step) if step >= 0 and self._directory else ""
            if file and (not path or file.has(step)):
                mine = file._replace(fd=os.dup(file.fd))
            elif path:
                mine = StateFile(role, rank, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            else:
                raise CopyFailed("this node does not have that state")
        try:
            yield mine
        finally:
            os.close(mine.fd)

    def _take(self, connection: socket.socket, request: CopyRequest, file: StateFile, round_: int) -> None:
        """Receive a state into the buffer with the oldest one."""
        entry = protocol.receive_entry(connection, request)
        with self._in_round(round_):
            buffer, place = self._reserve(file, entry)

        def put(at: int, chunk: bytes) -> None:
            with self._in_round(round_):
                os.pwrite(file.fd, chunk, place.offset + at)

        protocol.receive_state(connection, entry.size, put)
        with self._in_round(round_):
            file.put(buffer, entry._replace(offset=place.offset, capacity=place.capacity))
        protocol.confirm(connection)

    @contextmanager
    def _in_round(self, round_: int) -> Iterator[None]:
        """A thread of an earlier round must not change memory: states were forgotten, and buffers may have new ones."""
        with self._lock:
            if round_ != self._round:
                raise CopyFailed("the round is over")
            yield

    def _reserve(self, file: StateFile, entry: Entry) -> tuple[int, Entry]:
        size, entries = os.fstat(file.fd).st_size, file.entries()
        buffer = layout.choose_buffer(entries[: layout.COPY_BUFFERS], set())
        offset, capacity = layout.place_buffer(entries, buffer, entry.size, size)
        if offset != entries[buffer].offset:
            if layout.COPY_BUFFERS * capacity > available() // SHARE:
                self._report([], do="warn", text=_no_room(layout.COPY_BUFFERS * capacity))
                raise CopyFailed("not enough memory")
            file.begin(offset + capacity)
        place = Entry(NO_STEP, 0, offset, capacity)
        file.put(buffer, place)
        return buffer, place

    # States that this node asks for, or sends.

    def _fetch(self, order: dict[str, Any], round_: int) -> None:
        """Fetch the state that a worker waits for. Without success, the worker finds that instead."""
        request = CopyRequest(GET, order["role"], order["rank"], order["step"])
        with self._borrow(request.role, request.rank) as file:
            for left in reversed(range(TRIES)):  # the other node may not have begun the round yet
                try:
                    with self._connect(order, request) as connection:
                        self._take(connection, request, file, round_)
                    return
                except (OSError, CopyFailed) as error:
                    if left and round_ == self._round:
                        time.sleep(RETRY)
                        continue
                    with suppress(CopyFailed), self._in_round(round_):
                        self._report([], do="warn", text=f"cannot fetch a state from {order['host']}: {error}")
                        file.fail(request.step)
                    return

    def _connect(self, order: dict[str, Any], request: CopyRequest) -> socket.socket:
        connection = socket.create_connection((order["address"], order["port"]), PATIENCE)
        try:
            rate = getattr(socket, "SO_MAX_PACING_RATE", 47)  # Python has had no name for it for long
            connection.setsockopt(socket.SOL_SOCKET, rate, RATE)
        except OSError:
            pass
        protocol.ask(connection, self._key, request)
        return connection

    def _send_to(self, order: dict[str, Any], round_: int) -> None:
        """Send a rank's states to another node until the round ends: of all ranks those of the same steps."""
        choice, sent, failed = StrideChoice(), NO_STEP, False
        self._choices[order["role"], order["rank"]] = choice
        with self._borrow(order["role"], order["rank"]) as file:
            while round_ == self._round:
                time.sleep(POLL)
                try:
                    sent, failed = max(sent, self._send_next(order, file, choice, sent)), False
                except _Overwritten:
                    choice.double()
                except (OSError, CopyFailed) as error:
                    if not failed:
                        self._report([], do="warn", text=f"cannot send a state to {order['host']}: {error}")
                    failed = True
                    time.sleep(PATIENCE / 4)

    def _send_next(self, order: dict[str, Any], file: StateFile, choice: StrideChoice, sent: int) -> int:
        """Send the newest state that is to be sent, if it is newer than `sent`. Returns its step."""
        entries = file.entries()
        steps = layout.complete_steps(entries)
        if not steps or not entries[steps[max(steps)]].sharded:
            return NO_STEP
        file.keep(choice.note(max(steps), time.monotonic()))
        step = choice.newest(steps)
        if step > sent:
            self._send(order, file, steps[step], entries[steps[step]])
        return step

    def _send(self, order: dict[str, Any], file: StateFile, buffer: int, entry: Entry) -> None:
        with self._connect(order, CopyRequest(PUT, file.role, file.rank, entry.step)) as connection:
            protocol.send_state(connection, entry, _read_buffer(file, buffer, entry))

    # States that are written to a disk.

    def _write_to_disk(self, order: dict[str, Any], round_: int) -> None:
        """Write a rank's states until the round ends: of all ranks those of the same steps."""
        choice, written, failed = StrideChoice(order["every"]), NO_STEP, False
        key = order["role"], order["rank"]
        with self._borrow(*key) as file:
            while round_ == self._round:
                time.sleep(POLL)
                entries = file.entries()
                steps = layout.complete_steps(entries)
                if not steps or not (entries[steps[max(steps)]].sharded or file.rank == 0):
                    continue
                choice.note(max(steps), time.monotonic())
                if key not in self._choices:
                    file.keep(choice.stride)
                step = choice.newest(steps)
                if step <= written:
                    continue
                try:
                    self._write(file, steps[step], entries[steps[step]], round_)
                    written, failed = step, False
                except _Overwritten:
                    self._choices.get(key, choice).double()  # whose states the worker keeps
                except (OSError, ValueError) as error:
                    if not failed:
                        self._report([], do="warn", text=f"cannot write a state to {self._directory}: {error}")
                    failed = True
                    time.sleep(PATIENCE / 4)

    def _write(self, file: StateFile, buffer: int, entry: Entry, round_: int) -> None:
        """Write a state, unless another thread has meanwhile written the same or a later one."""
        key, new = (file.role, file.rank), (round_, entry.step)
        with self._writers.setdefault(key, Lock()):
            if new > self._written.get(key, (0, NO_STEP)):
                write_file(self._directory, file, entry, _read_buffer(file, buffer, entry))
                self._written[key] = new

    def _flush(self, order: dict[str, Any]) -> None:
        """Write the last states of this node's ranks, whose workers are gone."""
        with self._lock:
            files = [self._files[role, rank] for role, rank in order["ranks"] if (role, rank) in self._files]
            try:
                for file, buffer, entry in newest_unwritten(self._directory, files):
                    self._write(file, buffer, entry, self._round)
            except (OSError, ValueError, CopyFailed) as error:
                self._report([], do="warn", text=f"cannot write a state to {self._directory}: {error}")
        self._report([], do="flushed")


class _Overwritten(CopyFailed):
    """The worker has saved another state to the buffer meanwhile."""


class _Damaged(CopyFailed):
    """The bytes of a file are not those that were written."""


def _verify(chunks: Iterator[bytes], entry: Entry) -> Iterator[bytes]:
    """The receiver must not confirm a damaged state, so an error comes before the end."""
    checksum = 0
    for chunk in chunks:
        checksum = crc32(chunk, checksum)
        yield chunk
    if layout.is_damaged(entry, checksum):
        raise _Damaged


def _read_buffer(file: StateFile, buffer: int, entry: Entry) -> Iterator[bytes]:
    """The bytes of a state. Each part is read before it is checked that the worker has not begun to overwrite it."""
    for at in range(0, entry.size, CHUNK):
        chunk = os.pread(file.fd, min(CHUNK, entry.size - at), entry.offset + at)
        if file.entries()[buffer] != entry or not chunk:
            raise _Overwritten
        yield chunk


def _no_room(size: int) -> str:
    return f"no memory for another node's states: {size / 1e6:.0f} MB, and a quarter of what is available is less"


def _hang_up(connection: socket.socket) -> None:
    """Its thread closes it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the client has done so
