"""What a node and a parked interpreter say to each other: JSON in a file without a name, handed over through a socket,
with other descriptors beside it. A message is as long as it needs to be, and sending it never waits for the reader.

Runs in workers' interpreters, too: Python 3.8.
"""

from __future__ import annotations

import array
import json
import os
import socket

from flota.host.process_start import ProcessSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MOST_DESCRIPTORS = 250  # the kernel takes 253 at a time


def send(link: socket.socket, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
    """OSError when nobody is there."""
    page = os.memfd_create("flota", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(page), "wb") as file:
            file.write(json.dumps(message).encode())
        link.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [page, *fds]))])
    finally:
        os.close(page)


def receive(link: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next message and its descriptors; None when the other side is gone."""
    numbers = array.array("i")
    try:
        room = socket.CMSG_SPACE((MOST_DESCRIPTORS + 1) * numbers.itemsize)
        mark, beside, _, _ = link.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return None
    if not mark:
        return None
    for _, _, data in beside:
        numbers.frombytes(data)
    page, *fds = numbers
    with os.fdopen(page, "rb") as file:
        file.seek(0)
        return json.loads(file.read()), fds


def pack(spawns: Sequence[ProcessSpec], fds: list[int]) -> list[dict[str, Any]]:
    """Workers to start, as a message; descriptors among their streams are put beside it."""
    return [
        {
            "argv": spawn.argv,
            "env": spawn.env,
            "stdout": _place(spawn.stdout, fds),
            "stderr": _place(spawn.stderr, fds),
        }
        for spawn in spawns
    ]


def unpack(packed: Sequence[Mapping[str, Any]], fds: Sequence[int]) -> list[ProcessSpec]:
    return [
        ProcessSpec(tuple(one["argv"]), one["env"], _stream(one["stdout"], fds), _stream(one["stderr"], fds))
        for one in packed
    ]


def _place(stream: str | int | None, fds: list[int]) -> str | int | None:
    if not isinstance(stream, int):
        return stream
    if stream not in fds:
        fds.append(stream)
    return fds.index(stream)


def _stream(place: str | int | None, fds: Sequence[int]) -> str | int | None:
    return fds[place] if isinstance(place, int) else place
