"""A longer training loop with a slow rank. In the first attempt, a file is missing."""

import os
import time

import flota

RANK, ATTEMPT = int(os.environ["RANK"]), int(os.environ["FLOTA_ATTEMPT"])
STEPS = 5000

for step in range(1200 + 30 * ATTEMPT, STEPS + 1):
    if (RANK, ATTEMPT, step) == (2, 0, 1230):
        open("data/shard-12.bin")
    time.sleep(0.19 if RANK == 3 else 0.1 + RANK / 300)
    loss = 2.3 * 0.9995**step
    flota.heartbeat(step, total=STEPS, loss=loss)
    if step % 5 == 0:
        print(f"step {step}: loss {loss:.3f}", flush=True)
