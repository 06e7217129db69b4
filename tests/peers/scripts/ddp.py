"""torch: DDP on CPU. The final loss depends on the number of workers and steps, and on nothing else.

With a checkpoint file it resumes from it; `--killed-at STEP` makes rank 1 kill itself there, on the first attempt only.
"""

import argparse
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--checkpoint")
parser.add_argument("--killed-at", type=int, default=-1)
args = parser.parse_args()


def batch(step, rank, world):
    """One global batch a step, of which every rank takes its share."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(32 * world, 16, generator=generator, dtype=torch.float64)[rank::world]
    return x, x.sin().sum(1, keepdim=True)


def save(net, optimizer, step):
    state = {"net": net.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, args.checkpoint + ".new")
    os.replace(args.checkpoint + ".new", args.checkpoint)


def wait_for_checkpoint(step):
    """Rank 0 saves after the step that both have done; a kill before that would take the step along."""
    while not os.path.exists(args.checkpoint) or torch.load(args.checkpoint)["step"] < step:
        time.sleep(0.01)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    torch.manual_seed(1234)
    net = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).double()
    net = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    first = 0
    if args.checkpoint and os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint)
        net.module.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    print(f"START rank={rank} attempt={attempt} step={first}")

    for step in range(first, args.steps):
        if (rank, attempt, step) == (1, 0, args.killed_at):
            wait_for_checkpoint(step)
            os.kill(os.getpid(), signal.SIGKILL)
        x, y = batch(step, rank, world)
        loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if args.checkpoint and rank == 0:
            save(net, optimizer, step + 1)

    mean = loss.detach()
    dist.all_reduce(mean)
    print(f"RESULT world={world} loss={mean.item() / world:.9f}")
    # torch 2.13 can hang at the end when a DDP reducer outlives its process group.
    del net, optimizer, loss
    time.sleep(0.2)  # Threads of gloo that still have tensors would abort an interpreter that ends.
    dist.destroy_process_group()
    # Seen once in 50 runs: a gloo thread that is still there aborts the interpreter while it tidies up after all is done.
    sys.stdout.flush()
    os._exit(0)


main()
