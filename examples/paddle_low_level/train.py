"""Paddle: a custom training loop with three calls of flota. The model learns y = 3x - 2."""

import paddle

import flota

env = flota.init_parallel_env()
paddle.seed(env.rank)  # each worker generates different data
model = flota.DataParallel(paddle.nn.Linear(1, 1))
optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())

for step in range(201):
    x = paddle.uniform([32, 1], min=-1.0, max=1.0)
    loss = paddle.nn.functional.mse_loss(model(x), 3 * x - 2)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    if env.rank == 0 and step % 40 == 0:
        print(f"step {step:3d}  workers {env.world_size}  loss {loss.item():.6f}")

slope, offset = (parameter.item() for parameter in model.parameters())
print(f"rank {env.rank} of {env.world_size}: y = {slope:.2f} x + {offset:.2f}")
flota.shutdown()
