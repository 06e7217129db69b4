"""torch: training that loses no step when a worker dies. The model learns y = 3x - 2."""

import torch

import flota

env = flota.init_parallel_env()
model = flota.DataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
snap = flota.snapshot("train")
first = snap.load(model=model, optimizer=optimizer)
for step in range(first, 201):
    x = torch.rand(32, 1, generator=torch.Generator().manual_seed(step * env.world_size + env.rank)) * 2 - 1
    loss = torch.nn.functional.mse_loss(model(x), 3 * x - 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    snap.save(step + 1, model=model, optimizer=optimizer)
    if step % 40 == 0 and env.rank == 0:
        print(f"step {step:3d}  attempt {env.attempt}  loss {loss.item():.6f}")

slope, offset = (parameter.item() for parameter in model.parameters())
print(f"rank {env.rank} of {env.world_size}: y = {slope:.2f} x + {offset:.2f}")
flota.shutdown()
