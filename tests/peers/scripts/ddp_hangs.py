"""torch: DDP on CPU; after some steps one rank hangs, or is quiet and at work: `ddp_hangs.py KIND RANK`."""

import os
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

KIND, CULPRIT = sys.argv[1], int(sys.argv[2])
AFTER, STEPS, QUIET = 3, 6, 15.0


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        if KIND == "loader" and index > 60 and dist_rank() == CULPRIT:
            time.sleep(1e6)
        return torch.full((16,), float(index))


def dist_rank():
    return int(os.environ["RANK"])


def hang():
    if KIND == "sleep":
        time.sleep(1e6)
    elif KIND == "server":
        request, _never_answered = socket.socketpair()
        request.recv(1)
    elif KIND == "barrier":
        dist.barrier()
    elif KIND == "left":
        os._exit(0)


def evaluate(net):
    """Rank 0 alone, as many do it; the others wait for it."""
    end = time.monotonic() + QUIET
    with torch.no_grad():
        while time.monotonic() < end:
            net.module(torch.randn(512, 16))


def save(net):
    end = time.monotonic() + QUIET
    state = {"net": net.state_dict(), "moments": torch.randn(1 << 20)}
    while time.monotonic() < end:
        torch.save(state, "checkpoint.pt")
        time.sleep(0.5)


def compile_model(net):
    torch.compile(net.module)(torch.randn(8, 16))


QUIETLY = {"evaluation": evaluate, "checkpoint": save, "compile": compile_model}


def train(net, batches):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(STEPS):
        if step == AFTER:
            if dist_rank() == CULPRIT:
                hang()
            if KIND in QUIETLY:
                if dist_rank() == 0:
                    QUIETLY[KIND](net)
                dist.barrier()
        x = next(batches)
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}", flush=True)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)))
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=16, num_workers=1 if KIND == "loader" else 0)
    train(net, iter(loader))
    dist.barrier()
    print("RESULT trained", flush=True)
    time.sleep(0.2)  # Threads of gloo that still have tensors would abort an interpreter that ends.
    os._exit(0)


main()
