"""A training loop without a framework. Each rank reads its own shard of the data again every 25 steps."""

import os
import time

import flota

RANK = int(os.environ["RANK"])
STEPS = 60


def read_shard(rank: int) -> bytes:
    with open(f"data/shard-{rank}.bin", "rb") as shard:
        return shard.read()


def main() -> None:
    for step in range(1, STEPS + 1):
        if step % 25 == 0:
            read_shard(RANK)
        time.sleep(0.05)
        flota.heartbeat(step=step)
        if RANK == 0 and step % 10 == 0:
            print(f"step {step:3d}  loss {2.3 * 0.97**step:.3f}", flush=True)


main()
