"""torch DDP on gloo: `train_under_failures.py NOTES snapshot|file`. A step takes a tenth of a second, and is recorded.

Every step is saved with flota.snapshot, or every twelfth one to a file, as is usual without it."""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEP, EVERY = 0.1, 12  # seconds, steps
notes, way = Path(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo")
rank = dist.get_rank()
(notes / f"pid.{rank}").write_text(f"{os.uname().nodename} {os.getpid()}")
torch.manual_seed(0)
model = torch.nn.Linear(64, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
saved = notes / "saved.pt"
step = 0
if way == "snapshot":
    import flota

    snap = flota.snapshot("train")
    step = snap.load(model=model, optimizer=optimizer)
elif saved.exists():
    state = torch.load(saved)
    step = state["step"]
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
net = DistributedDataParallel(model)
while True:
    ends_at = time.monotonic() + STEP
    torch.manual_seed(step * 1000 + rank)
    loss = net(torch.randn(32, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss)
    step += 1
    if way == "snapshot":
        snap.save(step, model=model, optimizer=optimizer)
        flota.heartbeat(step)
    elif step % EVERY == 0 and rank == 0:
        new = notes / "saved.new"
        torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, new)
        new.replace(saved)
    if rank == 0:
        with (notes / "steps").open("a") as file:
            file.write(f"{step} {time.monotonic()} {loss.item().hex()}\n")
    time.sleep(max(0.0, ends_at - time.monotonic()))
