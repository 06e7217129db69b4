"""Saves its state at every step, and meets the other ranks in each step through files. Records where it began.

The job ends at the step in the file `last`.
"""

import json
import os
import time

import flota

stage, sharded = os.environ["STAGE"], bool(os.environ["SHARDED"])
env, round_ = flota.env(), os.environ["FLOTA_ROUND"]
snap = flota.snapshot("train", sharded=sharded)
state = {"total": 0, "rank": env.rank}
start = snap.load(state=state)


def write(name, value):
    with open(f"{stage}/.{name}", "w") as file:
        file.write(json.dumps(value))
    os.replace(f"{stage}/.{name}", f"{stage}/{name}")


def wait_for_others(step):
    write(f"at.{round_}.{env.rank}", step)
    for rank in range(env.world_size):
        while True:
            try:
                with open(f"{stage}/at.{round_}.{rank}") as file:
                    if json.load(file) >= step:
                        break
            except FileNotFoundError:
                pass
            time.sleep(0.002)


def last_step():
    try:
        with open(f"{stage}/last") as file:
            return int(file.read())
    except FileNotFoundError:
        return 1 << 30


write(f"began.{round_}.{env.rank}", {"start": start, **state, "pid": os.getpid()})
step = start
while step < last_step():
    state["total"] += step * (1 + env.rank if sharded else 1)
    wait_for_others(step)
    step += 1
    snap.save(step, state=state, filling="x" * 200_000)
    time.sleep(0.01)
write(f"ended.{env.rank}", {"step": step, **state})
