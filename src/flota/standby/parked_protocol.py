"""Messages between a node and a parked interpreter: JSON in a memfd, passed over a socket together with other
descriptors. A message can have any length, and sending it never blocks.
Runs in workers' interpreters as well: Python 3.8."""

from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from flota.host.process_start import ProcessSpec, original_open_files

LOW_SHARE = 0.1  # of one CPU, for imports while all CPUs are busy and no worker waits for them
MOST_DESCRIPTORS = 250  # the kernel accepts 253 per message


def send(link: socket.socket, message: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
    """Send a message. If the reader is gone, nothing happens: the next `receive` returns None."""
    try:
        with os.fdopen(os.memfd_create("flota", os.MFD_CLOEXEC), "wb", buffering=0) as page:
            page.write(json.dumps(message).encode())
            numbers = array.array("i", [page.fileno(), *fds])
            link.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
    except OSError:
        pass


def receive(link: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next message and its descriptors; None if the other side is gone."""
    numbers = array.array("i")
    try:
        room = socket.CMSG_SPACE((MOST_DESCRIPTORS + 1) * numbers.itemsize)
        mark, ancillary, _, _ = link.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return None
    if not mark:
        return None
    for _, _, data in ancillary:
        numbers.frombytes(data)
    page, *fds = numbers
    with os.fdopen(page, "rb") as file:
        file.seek(0)
        return json.loads(file.read()), fds


def pack(processes: Sequence[ProcessSpec], fds: list[int]) -> list[tuple[Any, ...]]:
    """Convert workers to start to JSON. Descriptors among their streams are added to `fds`."""
    packed = []
    for process in processes:
        streams = process.stdout, process.stderr
        fds += {fd for fd in streams if isinstance(fd, int)}.difference(fds)
        indices = (fds.index(one) if isinstance(one, int) else one for one in streams)
        packed.append((process.argv, process.env, *indices, process.cpus, process.memory_node))
    return packed


def unpack(packed: Sequence[Sequence[Any]], fds: Sequence[int]) -> list[ProcessSpec]:
    def stream(index: str | int | None) -> str | int | None:
        return fds[index] if isinstance(index, int) else index

    return [
        ProcessSpec(tuple(argv), env, stream(out), stream(err), cpus=tuple(cpus), memory_node=node)
        for argv, env, out, err, cpus, node in packed
    ]


def import_request(
    command: ProcessSpec,
    modules: Sequence[str],
    learnt: Sequence[str],
    *,
    limit: int | None = None,
    varying: Sequence[str] = (),
    share: float = LOW_SHARE,
) -> dict[str, Any]:
    """`limit`: bytes of memory for one interpreter; None for a fork template. `varying`: variables that imports of a
    fork template must not read. `share`: of one CPU, while all CPUs are busy and no worker waits."""
    _, _, target, *rest = command.argv  # python -u train.py …, or python -u -m train …
    return {
        "do": "import",
        "modules": modules,
        "learnt": learnt,
        "script": rest[0] if target == "-m" else target,
        "is_module": target == "-m",
        "limit": limit,
        "varying": varying,
        "share": share,
        "node": os.getpid(),
        "open_files": original_open_files,
    }
