"""torch: DDP in functions, as torch.multiprocessing.spawn calls them; `torch_spawn.py START_METHOD`, or `theirs`."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import flota

WORLD = 2


def train(rank, steps):
    dist.init_process_group("gloo", rank=rank, world_size=WORLD)
    torch.manual_seed(1234)
    net = DistributedDataParallel(torch.nn.Linear(16, 1).double())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(32 * WORLD, 16, generator=generator, dtype=torch.float64)[rank::WORLD]
        loss = torch.nn.functional.mse_loss(net(x), x.sin().sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean)
    print(f"RESULT rank={rank} loss={mean.item() / WORLD:.9f}")
    # torch 2.13 can hang at the end when a DDP reducer outlives its process group.
    weights = net.module.weight.detach().clone()
    del net, optimizer, loss
    time.sleep(0.2)  # Threads of gloo that still have tensors would abort an interpreter that ends.
    dist.destroy_process_group()
    return weights


if __name__ == "__main__":
    if sys.argv[1] == "theirs":
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[2], "OMP_NUM_THREADS": "1"}
        torch.multiprocessing.spawn(train, args=(5,), nprocs=WORLD)
    else:
        first, second = flota.spawn(
            train, args=(5,), nprocs=WORLD, with_rank=True, start_method=sys.argv[1], timeout=90
        ).results()
        assert torch.equal(first, second)
