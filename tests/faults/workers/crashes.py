"""Fails in the way that FAULT says, if it is the rank CULPRIT. All others hold a connection to that rank, do what a
training would do while it waits for a collective, and fail when it ends.
"""

import argparse
import atexit
import ctypes
import mmap
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback

# Other launchers, which bench/blame.py holds against flota, give other variables.
RANK, CULPRIT = int(os.environ.get("RANK") or os.environ["PADDLE_TRAINER_ID"]), int(os.environ["CULPRIT"])
ENDPOINTS = (os.environ.get("PADDLE_TRAINER_ENDPOINTS") or os.environ["CRASH_ENDPOINTS"]).split(",")
SCRATCH = os.environ.get("FLOTA_LOG_DIR", ".")


class OutOfMemoryError(RuntimeError):
    """As torch has one."""


def raises():
    raise ValueError("shard 17 is torn")


def raises_and_cleans_up():
    try:
        raises()
    finally:
        socket.create_connection(("127.0.0.1", 1))  # nobody there: what is raised last is no cause


def catches_and_gives_up():
    """What it has caught is neither its cause nor a reason to think that it has lost somebody."""
    try:
        socket.create_connection(("127.0.0.1", 1))
    except ConnectionRefusedError:
        traceback.print_exc()
    print("no metrics then", "the loss is nan, giving up", sep="\n", flush=True)
    sys.exit(3)


def mentions_a_connection():
    raise ValueError("bad endpoint: `connection refused` is no address")


def dies_slowly():
    """Its connections end with its exception, it itself a good while later: the others are the first to be seen."""
    atexit.register(time.sleep, 20)
    for connection in connections:
        connection.close()
    raises()


def exits():
    sys.exit(7)


def exits_with_2():
    sys.exit(2)


def exits_with_words():
    sys.exit("the data is not there")


def is_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def is_terminated():
    os.kill(os.getpid(), signal.SIGTERM)


def is_interrupted():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    os.kill(os.getpid(), signal.SIGINT)


def segfaults(depth=40):
    if depth:
        segfaults(depth - 1)
    ctypes.string_at(0)


def aborts():
    os.abort()


def meets_a_bus_error():
    with open(f"{SCRATCH}/short", "wb+") as file:
        file.truncate(mmap.PAGESIZE)
        memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        file.truncate(0)
        memory[0]


def takes_all_memory():
    taken = []
    while True:
        taken.append(bytearray(os.urandom(1 << 20)))


def asks_for_too_much():
    bytearray(1 << 60)


def fills_the_device():
    OutOfMemoryError.__module__ = "torch"
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB")


def fills_paddles_device():
    summary = "ResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate 2.0GB memory on GPU 0"
    line = "-" * 38
    raise SystemError(
        f"\n\n{line}\nC++ Traceback (most recent call last):\n{line}\n0   paddle::Alloc()\n\n{line}\nError Message Summary:\n{line}\n{summary}"
    )


def fills_jaxs_device():
    raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.")


def fills_the_disk():
    with open("/dev/full", "wb", buffering=0) as file:
        file.write(b"model")


def lacks_a_module():
    import apex_of_nobody  # noqa: F401


def cannot_import():
    from os import no_such_name  # noqa: F401


def takes_a_used_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        socket.create_server(taken.getsockname())


def opens_too_many_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    kept = [open(os.devnull) for _ in range(64)]
    print(len(kept))


def gets_local_rank():
    parser = argparse.ArgumentParser("train.py")
    parser.add_argument("--local_rank", type=int)
    parser.parse_args([f"--local-rank={RANK}"])


def lacks_an_argument():
    parser = argparse.ArgumentParser("train.py")
    parser.add_argument("--data", required=True)
    parser.parse_args([])


def has_bad_syntax():
    path = f"{SCRATCH}/bad.py"
    with open(path, "w") as file:
        file.write("def f(:\n    pass\n")
    os.execv(sys.executable, [sys.executable, path])


def has_no_script():
    os.execv(sys.executable, [sys.executable, "/no/such/train.py"])


def recurses():
    recurses()


def leaves_early():
    sys.exit(0)


def reads_badly():
    """A case of Paddle's documentation: the reader of this rank fails, another shows a SIGTERM that it got from somebody."""
    print("2021-11-03 05:08:55,091 - ERROR - DataLoader reader thread raised an exception!", flush=True)
    for connection in connections:
        connection.sendall(b"T")
    select.select(connections, [], [])  # until that one is gone
    raise SystemError(
        "(Fatal) Blocking queue is killed because the data reader raises an exception.\n"
        "  [Hint: Expected killed_ != true, but received killed_:1 == true:1.] (at blocking_queue.h:158)"
    )


def records():
    import flota

    flota.record(raises)()


def place(rank):
    host, _, port = ENDPOINTS[rank].rpartition(":")
    return host, int(port)


def connect():
    while True:
        try:
            return socket.create_connection(place(CULPRIT))
        except ConnectionRefusedError:
            time.sleep(0.005)


connections = []
if RANK == CULPRIT:
    with socket.create_server(place(RANK)) as server:
        connections = [server.accept()[0] for _ in range(len(ENDPOINTS) - 1)]
    print("step 3 is done", flush=True)
    with open(f"{SCRATCH}/fell", "w") as file:
        file.write(str(time.monotonic()))
    globals()[os.environ["FAULT"]]()
else:
    word = connect().recv(1)
    if word == b"T" and RANK == 0:
        print(
            "[SignalInfo: *** SIGTERM (@0x3fe) received by PID 1164 (TID 0x7f6cf1fc6700) from PID 1022 ***]", flush=True
        )
        os._exit(1)
    if word == b"T":
        time.sleep(600)
    raise ConnectionResetError(104, "Connection reset by peer")
