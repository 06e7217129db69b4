"""Trains without a framework: adds up numbers, saves after each step, and waits for the other ranks in each step.

Arguments: the number of steps; `sharded`: each rank has its own sum. KILLS: so many attempts wait to be killed, each
after some more steps.
"""

import os
import sys
import time

import flota

steps, sharded, kills = int(sys.argv[1]), "sharded" in sys.argv, int(os.environ.get("KILLS", "0"))
env = flota.env()
most = steps * (env.attempt + 1) // (kills + 1)
snap = flota.snapshot("train", sharded=sharded)
state = {"sum": 0, "seen": [], "filling": list(range(2000))}
start = snap.load(state=state)
print(f"start {start}", flush=True)


def wait_for_others(step):
    """A collective: no rank gets past it before all have reached it."""
    place = f"at.{os.environ['FLOTA_ROUND']}"
    with open(f"{place}.{env.rank}.new", "w") as file:
        file.write(str(step))
    os.replace(f"{place}.{env.rank}.new", f"{place}.{env.rank}")
    for rank in range(env.world_size):
        while True:
            try:
                with open(f"{place}.{rank}") as file:
                    if int(file.read()) >= step:
                        break
            except FileNotFoundError:
                pass
            time.sleep(0.001)


for step in range(start, steps):
    while step >= most:
        time.sleep(1)
    state["sum"] += step * (1 + env.rank if sharded else 1)
    state["seen"] = [*state["seen"][-9:], step]
    wait_for_others(step)
    snap.save(step + 1, state=state, last=step)
    print(f"saved {step + 1}", flush=True)
print(f"end {state['sum']} {state['seen']}", flush=True)
