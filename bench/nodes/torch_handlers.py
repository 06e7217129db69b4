"""Many of torch's DynamicRendezvousHandlers over one TCPStore: torch_handlers.py PORT COUNT PROCESSES.

Each handler has its own connection and thread, as in a real agent. They are distributed over several processes, forked
after torch has been imported, because threads of one Python process would wait for each other. The last handler starts
when all others are participants. The first line of output contains the times.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import signal
import sys
import threading
import time

from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler

RUN = "bench"
PR_SET_PDEATHSIG = 1


def parameters(port: int, count: int, *, is_host: bool) -> RendezvousParameters:
    return RendezvousParameters("c10d", f"127.0.0.1:{port}", RUN, count, count, is_host=is_host)


def join(port: int, count: int, done: int, number: int) -> None:
    wanted = parameters(port, count, is_host=False)
    backend, store = create_backend(wanted)
    create_handler(store, backend, wanted).next_rendezvous()
    os.write(done, f"{number} {time.monotonic()}\n".encode())


def fork_handlers(port: int, count: int, done: int, numbers: range) -> None:
    if os.fork():
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in numbers:
        threading.Thread(target=join, args=(port, count, done, number)).start()
    threading.Event().wait()


def main(port: int, count: int, processes: int) -> None:
    ends, done = os.pipe()
    for process in range(processes):
        fork_handlers(port, count, done, range(process, count - 1, processes))
    backend, _store = create_backend(parameters(port, count, is_host=True))
    while (state := backend.get_state()) is None or len(pickle.loads(state[0]).participants) < count - 1:
        time.sleep(0.05)
    last_began = time.monotonic()
    fork_handlers(port, count, done, range(count - 1, count))
    times: dict[str, float] = {}
    with os.fdopen(ends) as lines:
        while len(times) < count:
            number, ended = lines.readline().split()
            times[number] = float(ended)
    print(json.dumps({"last_began": last_began, "ended": max(times.values())}), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
