"""Paddle: fleet in collective mode. The model learns y = 3x - 2."""

import paddle
from paddle.distributed import fleet

fleet.init(is_collective=True)
rank, world = fleet.worker_index(), fleet.worker_num()
paddle.seed(rank)  # each worker generates different data
model = fleet.distributed_model(paddle.nn.Linear(1, 1))
optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())
optimizer = fleet.distributed_optimizer(optimizer)

for step in range(201):
    x = paddle.uniform([32, 1], min=-1.0, max=1.0)
    loss = paddle.nn.functional.mse_loss(model(x), 3 * x - 2)
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    if rank == 0 and step % 40 == 0:
        print(f"step {step:3d}  workers {world}  loss {loss.item():.6f}")

slope, offset = (parameter.item() for parameter in model.parameters())
print(f"rank {rank} of {world}: y = {slope:.2f} x + {offset:.2f}")
