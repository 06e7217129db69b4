"""torch: training that survives restarts and preemption. The model learns y = 3x - 2."""

import os

import torch

import flota

env = flota.init_parallel_env()
model = flota.DataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
first = 0
if os.path.exists("checkpoint.pt"):
    state = torch.load("checkpoint.pt")
    model.load_state_dict(state["model"])
    first = state["step"] + 1


def save(step):
    """Replace the checkpoint atomically, so that it is complete even if the worker is killed."""
    if env.rank == 0:
        torch.save({"model": model.state_dict(), "step": step}, "checkpoint.new")
        os.replace("checkpoint.new", "checkpoint.pt")


stopped = False
for step in range(first, 201):
    flota.heartbeat(step)
    x = torch.rand(32, 1, generator=torch.Generator().manual_seed(step * env.world_size + env.rank)) * 2 - 1
    loss = torch.nn.functional.mse_loss(model(x), 3 * x - 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    stopped = flota.should_stop()
    if stopped or step % 40 == 0:
        save(step)
        if env.rank == 0:
            print(f"step {step:3d}  attempt {env.attempt}  loss {loss.item():.6f}")
    if stopped:
        break

if not stopped:
    slope, offset = (parameter.item() for parameter in model.parameters())
    print(f"rank {env.rank} of {env.world_size}: y = {slope:.2f} x + {offset:.2f}")
flota.shutdown()
