"""torch: DDP on CPU that saves its state every few steps in a directory of all hosts, and resumes from the newest.

One global batch a step, of which every rank takes an equal share: so the final loss is the same for any number of
workers, restarts and changes of their number. While the directory has a file `gate`, no step beyond the number in it is
made: who wants to disturb the training need not hurry.
"""

import argparse
import fcntl
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("directory", type=Path)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--every", type=int, default=5)
parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes, beside its small sums")
args = parser.parse_args()

ROWS = 48
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def claim(number):
    """A rank is one process's: a worker that a launcher forgot would write the same files."""
    claimed = (args.directory / f"rank-{number}").open("w")
    try:
        fcntl.flock(claimed, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"TWICE rank={number}")
        raise
    return claimed


def batch(step):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(ROWS, 16, generator=generator, dtype=torch.float64)[rank::world]
    return x, x.sin().sum(1, keepdim=True)


def save(net, optimizer, step):
    state = {"net": net.module.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, args.directory / "new")
    (args.directory / "new").replace(args.directory / f"step-{step}.pt")


def newest():
    """The step of the newest state, as rank 0 sees it; a slower rank may see another one."""
    steps = [int(path.stem.removeprefix("step-")) for path in args.directory.glob("step-*.pt")]
    found = torch.tensor(max(steps, default=0))
    dist.broadcast(found, 0)
    return int(found)


def wait_at_gate(step):
    gate = args.directory / "gate"
    while gate.exists() and step >= int(gate.read_text()):
        time.sleep(0.01)


def main():
    claimed = claim(rank)
    dist.init_process_group("gloo")
    torch.manual_seed(1234)
    net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).double()
    net = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    first = newest()
    if first:
        state = torch.load(args.directory / f"step-{first}.pt")
        net.module.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
    print(f"START rank={rank} world={world} round={os.environ['FLOTA_ROUND']} step={first}")

    for step in range(first, args.steps):
        wait_at_gate(step)
        x, y = batch(step)
        loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and (step + 1) % args.every == 0:
            save(net, optimizer, step + 1)
        time.sleep(args.pause)

    mean = loss.detach()
    dist.all_reduce(mean)
    print(f"RESULT world={world} loss={mean.item() / world:.9f}")
    # torch 2.13 can hang at the end when a DDP reducer outlives its process group.
    del net, optimizer, loss
    time.sleep(0.2)  # Threads of gloo that still have tensors would abort an interpreter that ends.
    dist.destroy_process_group()
    # A gloo thread that is still there can abort the interpreter while it tidies up after all is done.
    claimed.close()
    sys.stdout.flush()
    os._exit(0)


main()
