"""Says nothing for a long time, and is at work: `works_quietly.py KIND SECONDS`. Rank 0 does the work, the others wait for it."""

import hashlib
import os
import subprocess
import sys
import time

KIND, SECONDS = sys.argv[1], float(sys.argv[2])
RANK = int(os.environ["RANK"])
END = time.monotonic() + SECONDS


def backend_compile():
    """As JAX's: one call into native code, for as long as it takes."""
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", int(1.5e6 * SECONDS))


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


def evaluate_slowly():
    batches = 0
    while time.monotonic() < END:
        batches += 1
        time.sleep(0.1)
    return batches


def main():
    print("begins", flush=True)
    if RANK == 0:
        work()
        open("done", "w").close()
    while not os.path.exists("done"):
        time.sleep(0.05)
    print("ends", flush=True)


work = {
    "compile": backend_compile,
    "children": compile_with_children,
    "checkpoint": save,
    "evaluation": evaluate,
    "slow evaluation": evaluate_slowly,
    "native evaluation": None,
}[KIND]
if KIND == "native evaluation":
    # No function, so no variables that could be seen to change; and nearly all of the time in one line.
    if RANK == 0:
        while time.monotonic() < END:
            hashlib.pbkdf2_hmac("sha256", b"x", b"y", 100000)
else:
    main()
