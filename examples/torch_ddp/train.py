"""torch: DistributedDataParallel with three calls of flota. The model learns y = 3x - 2."""

import torch

import flota

env = flota.init_parallel_env()
torch.manual_seed(env.rank)  # each worker generates different data
device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
model = flota.DataParallel(torch.nn.Linear(1, 1).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for step in range(201):
    x = torch.rand(32, 1, device=device) * 2 - 1
    loss = torch.nn.functional.mse_loss(model(x), 3 * x - 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if env.rank == 0 and step % 40 == 0:
        print(f"step {step:3d}  workers {env.world_size}  loss {loss.item():.6f}")

slope, offset = (parameter.item() for parameter in model.parameters())
print(f"rank {env.rank} of {env.world_size}: y = {slope:.2f} x + {offset:.2f}")
flota.shutdown()
