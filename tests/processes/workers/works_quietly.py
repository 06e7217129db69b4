"""Says nothing for a long time, and is at work: `works_quietly.py KIND SECONDS`. Rank 0 does the work, the others wait
for it, on other hosts too; of two that work in turn, then rank 1."""

import gzip
import hashlib
import os
import pickle
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

KIND, SECONDS = sys.argv[1], float(sys.argv[2])
RANK = int(os.environ["RANK"])
END = time.monotonic() + SECONDS
DONE = os.path.join(os.environ.get("STAGE", "."), "done")
TRIED = 100_000  # rounds of a first call, which shows how many this machine does in a second


def rounds():
    """For one call of nearly SECONDS, or longer where others want the CPU, too."""
    began = time.process_time()
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", TRIED)
    return int(TRIED * 0.8 * SECONDS / (time.process_time() - began))


def backend_compile():
    """As JAX's: one call into native code, for as long as it takes."""
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", rounds())


def compile_with_children():
    for _ in range(int(SECONDS)):
        subprocess.run(["sh", "-c", "timeout 1 sh -c 'while :; do :; done'"], check=False)


def save():
    with open("checkpoint", "wb") as file:
        while time.monotonic() < END:
            file.write(os.urandom(1 << 20))
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            time.sleep(0.2)


def forward(numbers):
    return sum(number * number % 7 for number in numbers)


def evaluate():
    right = 0
    while time.monotonic() < END:
        right += forward(range(20000))
    return right


def evaluate_elsewhere():
    """Another process does the work, and answers."""
    right = 0
    answers = served(lambda peer: peer.sendall(b"x"))
    while answers.recv(1):
        right += 1
    return right


def served(answer):
    """A connection to a process that does something at its other end, again and again."""
    here, there = socket.socketpair()
    if os.fork() == 0:
        here.close()
        while time.monotonic() < END:
            answer(there)
            time.sleep(0.05)
        os._exit(0)
    there.close()
    return here


def download():
    served(lambda peer: peer.sendall(bytes(1 << 16))).makefile("rb").read()


def upload():
    try:
        served(lambda peer: peer.recv(1 << 16)).sendall(bytes(1 << 30))
    except ConnectionError:
        pass  # it has had enough


def compress():
    """Native work of a library's function."""
    numbers = os.urandom(1 << 24)
    while time.monotonic() < END:
        gzip.compress(numbers)


def store():
    """Native work that keeps the GIL."""
    numbers = list(range(1 << 24))
    while time.monotonic() < END:
        pickle.dumps(numbers)


def score(salt):
    return hashlib.pbkdf2_hmac("sha256", b"x", salt, rounds())


def score_in_threads():
    with ThreadPoolExecutor(1) as pool:
        list(pool.map(score, [b"y"]))


def main():
    print("begins", flush=True)
    if RANK == 0:
        work()
        open(DONE, "w").close()
    while not os.path.exists(DONE):
        time.sleep(0.05)
    print("ends", flush=True)


work = {
    "compile": backend_compile,
    "children": compile_with_children,
    "checkpoint": save,
    "evaluation": evaluate,
    "remote evaluation": evaluate_elsewhere,
    "download": download,
    "upload": upload,
    "library": compress,
    "pickle": store,
    "threads": score_in_threads,
}.get(KIND)
# In no function, so there are no variables that could be seen to change; and nearly all of the time in one line.
if KIND == "native evaluation":
    if RANK == 1:
        open(DONE, "w").close()
        sys.exit()  # a sign of life
    while not os.path.exists(DONE):
        time.sleep(0.05)
    END = time.monotonic() + SECONDS
    while time.monotonic() < END:
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", TRIED)
elif KIND == "in turn":
    for turn in range(2):
        END = time.monotonic() + SECONDS
        while turn == RANK and time.monotonic() < END:
            hashlib.pbkdf2_hmac("sha256", b"x", b"y", TRIED)
        if turn == RANK:
            open(f"{DONE}.{turn}", "w").close()
        while not os.path.exists(f"{DONE}.{turn}"):
            time.sleep(0.05)
else:
    main()
