"""Hugging Face accelerate on CPU, as its documentation writes a training loop."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(7)
    x = torch.randn(64, 8, dtype=torch.float64)
    data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8, shuffle=True)
    model = torch.nn.Linear(8, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)

    losses = []
    for _ in range(3):
        for inputs, targets in data:
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(accelerator.reduce(loss.detach(), reduction="mean").item())

    rank, local, world = accelerator.process_index, accelerator.local_process_index, accelerator.num_processes
    ends = f"first={losses[0]:.9f} last={losses[-1]:.9f}"
    print(f"RESULT rank={rank} local={local} world={world} steps={len(losses)} {ends}")
    # torch 2.13 can hang at the end when a DDP reducer outlives its process group.
    accelerator.free_memory()
    del model, optimizer, data, loss
    accelerator.end_training()


main()
