"""Paddle: DataParallel by hand, other data on every rank; and Paddle's variables as the launcher gave them."""

import json
import os

import paddle
import paddle.distributed as dist

print("VARIABLES", json.dumps({name: value for name, value in os.environ.items() if name.startswith("PADDLE_")}))
paddle.set_default_dtype("float64")
dist.init_parallel_env()
rank, world = dist.get_rank(), dist.get_world_size()
total = paddle.to_tensor([float(rank + 1)])
dist.all_reduce(total)

paddle.seed(7)
model = paddle.DataParallel(paddle.nn.Linear(4, 1))
optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())
paddle.seed(100 + rank)
for _ in range(5):
    x = paddle.randn([8, 4])
    loss = ((model(x) - x.sum(axis=1, keepdim=True)) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
weights = ",".join(f"{weight:.9f}" for weight in model.parameters()[0].flatten().tolist())
print(f"RESULT rank={rank} world={world} sum={total.item()} loss={loss.item():.9f} weights={weights}")
