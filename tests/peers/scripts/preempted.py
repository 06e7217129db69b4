"""torch: DDP on CPU that tells its steps, asks whether to stop, and then saves each rank's state and ends."""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import flota

directory, pause = Path(sys.argv[1]), float(sys.argv[2])
dist.init_process_group("gloo")
rank = dist.get_rank()
own = directory / f"rank-{rank}.pt"
net = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
first = 0
if own.exists():
    state = torch.load(own)
    net.module.load_state_dict(state["net"])
    first = state["step"] + 1
for step in range(first, 10**9):
    flota.heartbeat(step)
    loss = (net(torch.full((2, 4), float(rank))) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == first + 2:
        (directory / f"going-{rank}").touch()
    time.sleep(pause)
    if flota.should_stop():
        torch.save({"net": net.module.state_dict(), "step": step}, own.with_suffix(".new"))
        own.with_suffix(".new").replace(own)
        print(f"RESULT saved={step}")
        break
dist.barrier()
os._exit(0)  # torch's own teardown aborts now and then
