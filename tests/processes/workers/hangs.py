"""Steps with a sum over all ranks after each, made of sockets; after some of them one rank hangs: `hangs.py KIND RANK`.

Like a collective on an accelerator, the sum does not notice that a peer is gone: it waits, but with `notices`. In attempt 1 nobody hangs but with
`always`, nor in a job of another size than HANG_SIZE.
"""

import ctypes
import os
import queue
import signal
import socket
import struct
import sys
import threading
import time

KIND, CULPRIT = sys.argv[1], int(sys.argv[2])
ENV = {"RANK": os.environ.get("PADDLE_TRAINER_ID"), "WORLD_SIZE": os.environ.get("PADDLE_TRAINERS_NUM"), **os.environ}
RANK, SIZE = int(ENV["RANK"]), int(ENV["WORLD_SIZE"])
STEPS, HANGS_AFTER = 10, 3
HANGS_IN = int(os.environ.get("HANG_SIZE", SIZE))
DROP_ALL = struct.pack(
    "HL", 1, ctypes.addressof(RETURN_0 := ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0)))
)
BEATS = "beats" in sys.argv
PORT = os.environ.get("HANG_PORT") or os.environ["MASTER_PORT"]
ATTEMPT = os.environ.get("FLOTA_ATTEMPT", "0")  # other launchers are shown it, too
SO_ATTACH_FILTER = 26
done = False


def meet():
    """Rank 0 has a connection to each, all others one to rank 0."""
    host, port = os.environ.get("MASTER_ADDR", "127.0.0.1"), int(PORT)
    if RANK == 0:
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind((host, port))
            server.listen(SIZE)
            return [server.accept()[0] for _ in range(SIZE - 1)]
    while True:
        try:
            return [socket.create_connection((host, port))]
        except OSError:
            time.sleep(0.01)


def receive(peer):
    if not peer.recv(1):
        if "notices" in sys.argv:
            raise ConnectionError("a peer is gone")
        one, _other = socket.socketpair()
        one.recv(1)  # a peer is gone, and nobody tells


def sum_over_all(peers):
    if RANK == 0:
        for peer in peers:
            receive(peer)
        for peer in peers:
            peer.sendall(b"x")
    else:
        peers[0].sendall(b"x")
        receive(peers[0])


def note(step):
    """Whole, or not there: somebody is waiting for it."""
    path = f"step.{ATTEMPT}.{RANK}.{step}"
    with open(f".{path}", "w") as file:
        file.write(PORT)
    os.rename(f".{path}", path)


def wait_until_dropped(peers):
    """By the network, where there is one, or by this rank's kernel."""
    if os.environ.get("FLOTA_NODES", "1") == "1":
        if RANK == CULPRIT:
            peers[0].setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, DROP_ALL)
    else:
        while not os.path.exists(f"{os.environ['STAGE']}/dropped"):
            time.sleep(0.01)


def watch():
    looks = 0
    while not done:
        looks += 1
        time.sleep(0.2)


def hang():
    if KIND in ("sleep", "always"):
        time.sleep(1e6)
    elif KIND == "deadlock":
        lock = threading.Lock()
        with lock, lock:
            pass
    elif KIND == "gil":
        ctypes.PyDLL(None).sleep(10**6)
    elif KIND == "busy":
        while not done:
            pass
    elif KIND == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif KIND == "pipe":
        _reader, writer = os.pipe()
        while True:
            os.write(writer, b"x" * 4096)
    elif KIND == "server":
        request, _never_answered = socket.socketpair()
        request.recv(1)
    elif KIND == "poll":
        watch()
    elif KIND == "queue":
        threading.Thread(target=watch, daemon=True).start()
        queue.Queue().get()
    elif KIND == "left":
        sys.exit(0)


def main():
    peers = meet()
    if BEATS:
        from flota import heartbeat
    for step in range(STEPS):
        sum_over_all(peers)
        if BEATS:
            heartbeat(step=step)
        print(f"step {step}", flush=True)
        note(step)
        if step == HANGS_AFTER and (ATTEMPT == "0" or KIND == "always") and SIZE == HANGS_IN:
            if KIND == "dropped":
                wait_until_dropped(peers)
            elif RANK == CULPRIT:
                hang()


main()
