"""A longer training loop, which reports its steps."""

import os
import time

import flota

STEPS = 5000

for step in range(1200, STEPS + 1):
    loss = 2.3 * 0.998**step
    flota.heartbeat(step, total=STEPS, loss=loss)
    if os.environ["RANK"] == "0" and step % 50 == 0:
        print(f"epoch {step // 50}: loss {loss:.3f}", flush=True)
    time.sleep(0.03)
