"""Paddle with flota's three changes: under flota, under Paddle's launcher, and as a single process."""

import paddle

import flota

env = flota.init_parallel_env()
assert flota.init_parallel_env() == env
total = paddle.to_tensor([env.rank + 1.0])
if env.world_size > 1:
    paddle.distributed.all_reduce(total)

paddle.seed(env.rank)  # other weights and other data on each: what they have in the end they have together
model = flota.DataParallel(paddle.nn.Linear(4, 1))
optimizer = paddle.optimizer.SGD(learning_rate=0.1, parameters=model.parameters())
for _ in range(5):
    x = paddle.randn([8, 4])
    loss = ((model(x) - x.sum(axis=1, keepdim=True)) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
weights = ",".join(f"{weight:.6f}" for weight in model.parameters()[0].flatten().tolist())
print(f"RESULT rank={env.rank} world={env.world_size} sum={total.item()} weights={weights}")
flota.shutdown()
flota.shutdown()
