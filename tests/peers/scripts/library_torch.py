"""torch with flota's three changes: under flota, under torchrun, and as a single process."""

import torch
import torch.distributed as dist

import flota

env = flota.init_parallel_env()
assert flota.init_parallel_env() == env
total = torch.tensor([env.rank + 1.0])
dist.all_reduce(total)

torch.manual_seed(env.rank)  # other weights and other data on each: what they have in the end they have together
model = flota.DataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    x = torch.randn(8, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = ",".join(f"{weight:.6f}" for weight in model.module.weight.flatten().tolist())
# In one write: torchrun's workers share its stdout, unbuffered.
print(f"RESULT rank={env.rank} world={env.world_size} sum={total.item()} weights={weights}\n", end="", flush=True)
flota.shutdown()
flota.shutdown()
