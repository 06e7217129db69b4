"""torch: DDP on CPU that tells its steps, and when it is to stop saves each rank's state and ends.

`preempted.py DIRECTORY PAUSE WAY`. asks: it asks whether to stop. pauses: and is held up now and then, each rank at other
times. recorded: under torch's @record. called: it has a callback.
"""

import os
import random
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel

import flota

directory, pause, way = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    own = directory / f"rank-{rank}.pt"
    net = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    chance = random.Random(rank)
    step = first = 0

    def save(done):
        torch.save({"net": net.module.state_dict(), "step": done}, own.with_suffix(".new"))
        own.with_suffix(".new").replace(own)
        print(f"RESULT saved={done}", flush=True)
        dist.barrier()
        os._exit(0)  # torch's own teardown aborts now and then

    if own.exists():
        state = torch.load(own)
        net.module.load_state_dict(state["net"])
        first = state["step"] + 1
    if way == "called":
        flota.on_stop(lambda: save(step - 1))
    for step in range(first, 10**9):
        flota.heartbeat(step)
        loss = (net(torch.full((2, 4), float(rank))) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == first + 2:
            (directory / f"going-{rank}").touch()
        time.sleep(max(pause, 0.01) if way == "pauses" else pause)
        if way == "pauses" and chance.random() < 0.02:
            time.sleep(chance.uniform(0.1, 0.6))
        if way != "called" and flota.should_stop():
            save(step)


record(main)() if way == "recorded" else main()
