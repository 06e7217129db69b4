"""torch: flota.spawn runs a function in two workers. The model learns y = 3x - 2."""

import torch

import flota


def train(steps):
    env = flota.init_parallel_env()
    torch.manual_seed(env.rank)  # each worker generates different data
    model = flota.DataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        x = torch.rand(32, 1) * 2 - 1
        loss = torch.nn.functional.mse_loss(model(x), 3 * x - 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    learned = [parameter.item() for parameter in model.parameters()]
    flota.shutdown()
    return learned


if __name__ == "__main__":
    for rank, (slope, offset) in enumerate(flota.spawn(train, args=(201,), nprocs=2).results()):
        print(f"rank {rank} of 2: y = {slope:.2f} x + {offset:.2f}")
