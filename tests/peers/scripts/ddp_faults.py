"""A real DDP training on gloo in which one rank fails at step 3, in the way that is asked for."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import flota

HOW, CULPRIT = sys.argv[1], int(sys.argv[2])


class Shards(Dataset):
    """Of which one is torn."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if HOW == "loader" and dist.get_rank() == CULPRIT and index >= 24:
            raise OSError(5, "Input/output error", "shard-3.bin")
        return torch.full((4,), float(index))


def fail():
    if HOW == "raise":
        raise ValueError("shard 3 is torn")
    if HOW == "exit":
        sys.exit(7)
    if HOW == "leave":
        os._exit(0)
    if HOW.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, HOW))
    if HOW == "memory":
        torch.empty(1 << 50)


dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for step, x in enumerate(DataLoader(Shards(), batch_size=8, num_workers=0)):
    flota.heartbeat(step=step)
    if step == 3 and dist.get_rank() == CULPRIT:
        fail()
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
time.sleep(0.2)  # Threads of gloo that still have tensors would abort an interpreter that ends.
dist.destroy_process_group()
